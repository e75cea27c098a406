"""The processes: admission worker, dispatcher, ticker, and the stack that starts them."""
