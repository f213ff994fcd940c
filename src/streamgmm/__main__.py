"""``python -m streamgmm`` is the same as ``streamgmm``."""

from streamgmm.cli import main

if __name__ == "__main__":
    main()
