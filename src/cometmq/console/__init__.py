"""The console: pages for those who operate brokers, in a process of its own that speaks remoting to them."""
