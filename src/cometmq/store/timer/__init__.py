"""Timed messages: the timer wheel and its log."""
