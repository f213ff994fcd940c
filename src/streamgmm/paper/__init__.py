"""The tables and figures of the paper, each made by one command: runs, records of runs, and the tables made of them."""
