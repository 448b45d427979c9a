"""Stored candidates chosen from once more, by other rules or from fewer of them: what ``report --replay`` answers."""
