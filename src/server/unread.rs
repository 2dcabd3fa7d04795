//! Clients of HTTP/1.1 that do not read their answers. HTTP/2 finds them by its pings.

use std::{pin::Pin, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutStream;

/// How long a client may leave what it is sent unread.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// The connection, which fails if its client reads nothing for that long while there is more to
/// send.
pub(crate) fn closed_if_unread<S>(connection: S) -> Pin<Box<TimeoutStream<S>>>
where
    S: AsyncRead + AsyncWrite,
{
    let mut connection = TimeoutStream::new(connection);
    connection.set_write_timeout(Some(READ_WITHIN));
    Box::pin(connection)
}
