"""A trial on its way to an engine: what it waits for, which replica is asked, which answers are there already. What a
process of trials holds between its trials and the engines; knows no sandbox and no verifier."""
