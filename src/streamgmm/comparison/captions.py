"""What the tables say above their figures."""

from __future__ import annotations

from streamgmm.comparison.verdicts import LIMIT, OVERLAP_LIMIT, WINDOW_LIMIT

DENSITY = (
    "Mean test log-likelihood in nats, in standardised units of the training part; more is better. Ours learns raw "
    'rows with its defaults. scikit-learn is `GaussianMixture(covariance_type="diag")` on standardised rows, with '
    "`reg_covar` chosen on a quarter of the training part and refitted on all of it. "
    f"The limit is {LIMIT}·D. s: seconds of scikit-learn's nine fits and of ours."
)
ANOMALIES = (
    "ROC AUC in percent, one class held out, mean over the classes. Rows are raw, without noise. scikit-learn is "
    '`GaussianMixture(K, covariance_type="diag", reg_covar=0.05)` on standardised rows. s: seconds of the fits to all '
    "classes, scikit-learn's and ours."
)
OVERLAP = (
    "Four clusters that overlap, K = 4: ours after one pass of 40 000 rows (`partial_fit`), scikit-learn's EM until it "
    f"converges; mean log-likelihood of 20 000 new rows. The limit is {OVERLAP_LIMIT} nats."
)
DRIFT = (
    "Clusters that drift by one standard deviation in 5000 rows, 20 000 rows. Each chunk of 100 is scored, then "
    "learned. The lowest difference is that of any 1000 consecutive rows from row 200 on, to a diagonal Gaussian of "
    f"all rows so far. The limit is {WINDOW_LIMIT:g} nat."
)
