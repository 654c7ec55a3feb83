"""How a run lives: opened, saved, resumed, forecast and counted."""
