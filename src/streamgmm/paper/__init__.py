"""Tables of measured results, each made by one command: runs, records of runs, and the tables made of them."""
