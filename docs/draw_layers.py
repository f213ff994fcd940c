"""Draw the pictures of layers: python docs/draw_layers.py (MNIST is read as by ``streamgmm paper``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamgmm import DeepStreamingMixture, datasets, plots

PLACE = Path(__file__).parent / "pictures" / "layers"
COUNT = 12


def main() -> None:
    """Learn MNIST once, and draw what each layer knows, samples, and halves that are filled in."""
    PLACE.mkdir(parents=True, exist_ok=True)
    data = datasets.load("mnist")
    model = DeepStreamingMixture.from_shape((28, 28), n_epochs=1, random_state=0).fit(data.x_train)
    drawn, sharp = (model.sample(2 * COUNT, sharpening=steps)[0] for steps in (0, 50))
    test = data.x_test[:COUNT].astype(np.float64)
    hidden = test.reshape(-1, 28, 28).copy()
    hidden[:, :, 14:] = np.nan
    hidden = hidden.reshape(COUNT, -1)
    pictures = {
        "patches": plots.prototypes(model, 0),
        "prototypes": plots.prototypes(model),
        "samples": plots.images(
            {"drawn": drawn[:COUNT], "sharpened": sharp[:COUNT], "drawn ": drawn[COUNT:], "sharpened ": sharp[COUNT:]}
        ),
        "halves": plots.images({"visible": hidden, "filled in": model.inpaint(hidden), "image": test}),
    }
    for name, figure in pictures.items():
        figure.savefig(PLACE / f"{name}.png", dpi=70)


if __name__ == "__main__":
    main()
