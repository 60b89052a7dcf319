"""The result of a comparison, for terminals, programs, spreadsheets and browsers."""
