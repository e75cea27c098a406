"""PostgreSQL, the truth: tables and statements. Functions take an open connection and never commit."""
