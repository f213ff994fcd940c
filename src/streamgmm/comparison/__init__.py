"""How good the defaults are, beside scikit-learn with a validated ``reg_covar``."""
