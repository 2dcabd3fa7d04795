//! Something that speaks Redis' protocol and says what a test wants.

use std::sync::Arc;

use lockkeeper_base::tasks::spawn_detached;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

/// What is answered to a command, in the protocol's own form; none: `+OK`.
type Answer = dyn Fn(&[String]) -> Option<String> + Send + Sync;

/// A fake of a Redis server. It ends with this.
pub struct FakeRedis {
    port: u16,
    _task: AbortOnDropHandle<()>,
}

// === impl FakeRedis ===

impl FakeRedis {
    /// Starts one.
    pub async fn start(
        answer: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let answer: Arc<Answer> = Arc::new(answer);
        let task = spawn_detached("fake-redis", async move {
            while let Ok((client, _)) = listener.accept().await {
                spawn_detached("fake-client", serve(client, Arc::clone(&answer)));
            }
        });
        Self {
            port,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// A text of any length.
pub fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

async fn serve(client: TcpStream, answer: Arc<Answer>) {
    let (from, mut to) = client.into_split();
    let mut from = BufReader::new(from);
    while let Some(words) = read(&mut from).await {
        let said = answer(&words).unwrap_or_else(|| "+OK\r\n".to_owned());
        if to.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next command; none at the end.
async fn read(from: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Vec<String>> {
    let count = number(from, '*').await?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = vec![0; number(from, '$').await? + 2];
        from.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).to_uppercase());
    }
    Some(words)
}

async fn number(from: &mut (impl AsyncBufReadExt + Unpin), kind: char) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).await.ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}
