"""``report --replay``: select again among stored candidates, by other selectors or at other budgets."""
