"""Question answering by teams: records, scorers and games in which each agent knows a part."""
