"""Where agents are: names and the endpoints behind them."""
