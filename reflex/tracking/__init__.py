"""What a run leaves behind: the record (the truth) and its view in W&B. Importing this is cheap."""
