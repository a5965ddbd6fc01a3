"""What the author of a campaign should know before anybody is asked; the command line and the pages both say it."""
