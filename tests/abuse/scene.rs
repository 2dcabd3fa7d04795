//! A coordinator with tokens and rules, in a control group, on a Redis of its own.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use tempfile::TempDir;

use crate::{
    cgroup::Cgroup,
    client::Client,
    coordinator::{Coordinator, Settings, client_at},
    form::Form,
    redis_server::RedisServer,
};

/// Before every name, as a shared Redis demands it.
pub(crate) const KEY_PREFIX: &str = "abuse:";

/// The rules: the tenants may do everything below their own prefixes, one identity nothing at all.
const RULES: &str = r#"
[[access.rules]]
identity = "victim"
prefix = "victim/"
allow = ["acquire", "release", "describe"]

[[access.rules]]
identity = "tenant"
prefix = "tenant/"
allow = ["acquire", "release", "describe", "admin"]

[[access.rules]]
identity = "operator"
allow = ["describe", "admin"]
"#;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The neighbour that must not notice anything.
    Victim,
    /// Has one prefix, and all rights on it.
    Tenant,
    /// No rule allows it anything.
    Ruleless,
    /// An admin of all names.
    Operator,
    /// Shows no credentials.
    Stranger,
}

/// Where a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Into a file.
    File,
    /// Into a pipe, whose reader can be frozen.
    Pipe,
}

/// What an attack is made on.
pub(crate) struct Scene {
    pub(crate) coordinator: Coordinator,
    pub(crate) redis: Arc<RedisServer>,
    pub(crate) admin: SocketAddr,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) folder: Arc<TempDir>,
}

// === impl Who ===

impl Who {
    const NAMED: [(Self, &str); 4] = [
        (Self::Victim, "victim"),
        (Self::Tenant, "tenant"),
        (Self::Ruleless, "ruleless"),
        (Self::Operator, "operator"),
    ];

    /// None for strangers.
    pub(crate) fn token(self) -> Option<String> {
        let named = Self::NAMED.iter().find(|(who, _)| *who == self);
        named.map(|(_, name)| format!("{name}-0123456789abcdef0123456789abcdef"))
    }

    pub(crate) async fn connect(self, address: SocketAddr) -> Client {
        let client = client_at(address).await;
        match self.token() {
            Some(token) => client.with_token(&token),
            None => client,
        }
    }
}

// === impl Scene ===

impl Scene {
    pub(crate) async fn start(form: Form, log: Log) -> Self {
        let folder = TempDir::new().unwrap();
        let file = |name: &str, text: &str| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let tokens = Who::NAMED.map(|(who, name)| format!("{name} {}\n", who.token().unwrap()));
        let tokens = file("tokens", &tokens.concat());
        let redis = RedisServer::start().await;
        let cgroup = form.has_cgroup.then(|| Cgroup::new().unwrap());
        let mut settings = Settings::on(&redis.url())
            .with_file(&file("settings.toml", RULES))
            .with("auth.token_file", &tokens.display().to_string())
            .with("store.key_prefix", KEY_PREFIX)
            .with("admin.listen", "127.0.0.1:0")
            .with("log.level", "info");
        if let Some(group) = &cgroup {
            settings = settings.started_by(&group.launcher().each_ref().map(String::as_str));
        }
        if log == Log::Pipe {
            let pipe = folder.path().display().to_string();
            // The reader's number is in a file; what is between it and the coordinator is a pipe.
            let enter = r#"mkfifo "$0/log" && { cat "$0/log" >&2 & echo $! >"$0/reader"; } &&
                exec "$@" 2>"$0/log""#;
            settings = settings
                .started_by(&["sh", "-c", enter, &pipe])
                .with("log.level", "trace");
        }
        let coordinator = Coordinator::start(&settings).await;
        let admin = coordinator.admin_address().await;
        Self {
            coordinator,
            redis: Arc::new(redis),
            admin,
            cgroup,
            folder: Arc::new(folder),
        }
    }
}
