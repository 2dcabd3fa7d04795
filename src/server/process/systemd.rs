//! Notifies the service manager, if one started this process: systemd's `Type=notify`.

use sd_notify::NotifyState;

/// The process serves.
pub(crate) fn ready() {
    say(NotifyState::Ready);
}

/// The process is stopping on request.
pub(crate) fn stopping() {
    say(NotifyState::Stopping);
}

/// Without a service manager this does nothing. One that cannot be notified gives up after its own
/// time limit.
fn say(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}
