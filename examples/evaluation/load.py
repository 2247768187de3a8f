"""Loads what every evaluation needs. It takes long, and is done once."""

import sys

sys.path.insert(0, "packages")  # pip install --target packages numpy pandas

import numpy as np
import pandas as pd

random = np.random.default_rng(1)
prices = pd.Series(100 * np.exp(np.cumsum(random.normal(0.0003, 0.01, 2520))), index=pd.bdate_range("2015-01-01", periods=2520))


def evaluate(days: int) -> float:
    """Returns what one unit becomes that is invested whenever the price is above its mean of some days."""
    held = (prices > prices.rolling(days).mean()).shift(1, fill_value=False)
    return float((1 + prices.pct_change().fillna(0)[held]).prod())
