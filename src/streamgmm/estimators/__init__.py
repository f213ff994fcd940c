"""The faces: estimators for scikit-learn and river."""
