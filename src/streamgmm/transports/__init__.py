"""What sources and sinks share about brokers: URLs, logins and TLS."""
