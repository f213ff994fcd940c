"""How the parameters of replicas are merged."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgmm.core.engine import Replica, Round


def average_parameters(done: Round, out: Replica, rows: range) -> None:
    """Average all parameters over the steps taken: what gradient steps change."""
    shares = np.tile(done.shares, (len(out.parameters), 1))
    merge_parameters(done, out, rows, shares)
    out.parameters.refresh(rows)
    part = slice(rows.start, rows.stop)
    logits = np.stack([r.parameters.logits[part] for r in done.replicas])
    out.parameters.logits[part] = (start := done.start.parameters.logits[part]) + done.shares @ (logits - start)


def merge_parameters(done: Round, out: Replica, rows: range, shares: Any) -> None:
    """Merge the tensors of parameters as plain numbers, by shares (K, R); what nobody changed stays."""
    replicas = [r.parameters for r in done.replicas]
    out.parameters.kind.merge_parameters(out.parameters, done.start.parameters, replicas, shares, rows)
