//! Tells the service manager that started this process, if one did, what becomes of it: systemd's
//! `Type=notify`.

use sd_notify::NotifyState;

/// It serves.
pub(crate) fn ready() {
    say(NotifyState::Ready);
}

/// It has been asked to stop and does.
pub(crate) fn stopping() {
    say(NotifyState::Stopping);
}

/// Without a service manager this does nothing. One that cannot be told gives up on us after its
/// own time limit.
fn say(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
