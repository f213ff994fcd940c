"""The tables and figures of the paper, measured again: runs, their records, and the tables made of them."""
