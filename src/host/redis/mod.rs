//! Scripts on Redis.
