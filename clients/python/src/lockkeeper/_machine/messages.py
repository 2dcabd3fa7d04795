"""Messages of the protocol, as the machine sees them."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from lockkeeper._machine.events import Message
from lockkeeper.errors import Error, NotGranted, Refused, not_granted_reason
from lockkeeper.v1 import lock_pb2, semaphore_pb2, session_pb2, types_pb2

#: A request: its field in `SessionRequest`, and the message.
Request = tuple[str, Message]

WAITS = frozenset(["acquire", "acquire_all", "acquire_permits", "await_latch"])
PERMITS = frozenset(["acquire_permits", "try_acquire_permits"])
ACQUIRES = PERMITS | {"acquire", "acquire_all", "try_acquire", "try_acquire_all"}
TRIES = ACQUIRES - WAITS
#: What changes nothing.
QUESTIONS = frozenset(
    ["describe", "describe_semaphore", "describe_latch", "check_token", "leader", "explain"]
)

_EXCLUSIVE = types_pb2.LOCK_MODE_EXCLUSIVE

#: The fields of types of messages, whose descriptors are slow.
_FIELDS: dict[type, frozenset[str]] = {}


def has_field(message: Message, name: str) -> bool:
    """Tell whether messages of this type have a field."""
    kind = type(message)
    if kind not in _FIELDS:
        _FIELDS[kind] = frozenset(message.DESCRIPTOR.fields_by_name)
    return name in _FIELDS[kind]


def kinds_with(name: str) -> frozenset[str]:
    """Return the kinds of requests that have a field."""
    kinds = session_pb2.SessionRequest.DESCRIPTOR.fields
    return frozenset(
        kind.name
        for kind in kinds
        if kind.message_type and name in kind.message_type.fields_by_name
    )


def seconds(duration: Duration) -> float:
    """Return a duration in seconds."""
    return float(duration.seconds) + duration.nanos / 1e9


def set_seconds(duration: Duration, value: float) -> None:
    """Set a duration from seconds."""
    duration.seconds, duration.nanos = divmod(round(value * 1e9), 1_000_000_000)


def mode_of(message: Message) -> int:
    """Return the mode of a lock; unset means exclusive."""
    return int(message.mode) or _EXCLUSIVE


def is_lock(grant: Message) -> bool:
    """Tell a lock from permits."""
    return isinstance(grant, types_pb2.Grant)


def token_of(grant: Message) -> int:
    """Return the fencing token of a grant; permits have none."""
    return int(grant.fencing_token) if is_lock(grant) else 0


def is_read(grant: Message) -> bool:
    """Return whether a grant is a lock that is held for reading."""
    return is_lock(grant) and grant.mode == types_pb2.LOCK_MODE_READ


def keys_of(message: Message) -> list[tuple[str, ...]]:
    """Return what identifies a grant in its session: one key of a lock, one for each permit.

    A fair hold and an exclusive one of the same owner are one grant.
    """
    if has_field(message, "permit_ids"):
        return [(permit_id,) for permit_id in message.permit_ids]
    mode = mode_of(message)
    mode = _EXCLUSIVE if mode == types_pb2.LOCK_MODE_FAIR else mode
    return [(message.name, message.owner, str(mode))]


def possible_locks(kind: str, request: Message) -> list[types_pb2.Grant]:
    """Return the locks that a request may have acquired, as grants that `resume` can name."""
    if kind not in ACQUIRES or kind in PERMITS:
        return []
    locks = [request] if kind in ("acquire", "try_acquire") else request.locks
    return [
        types_pb2.Grant(
            name=lock.name,
            mode=mode_of(lock),  # type: ignore[arg-type]
            owner=request.owner,
            hold_count=1,
            watched=not request.HasField("lease"),
        )
        for lock in locks
    ]


def resume_of(
    opened: session_pb2.SessionOpened, grants: Sequence[Message]
) -> session_pb2.ResumeSession:
    """Return the frame that resumes a session, which names everything that it may hold."""
    return session_pb2.ResumeSession(
        session_id=opened.session_id,
        resume_token=opened.resume_token,
        grants=[it for it in grants if is_lock(it)],
        permits=[it for it in grants if not is_lock(it)],
        sends_pings=True,
        sends_close=True,
    )


def name_of(kind: str, request: Message) -> str:
    """Return the names in a request, for people."""
    if kind in ("acquire_all", "try_acquire_all"):
        return ", ".join(lock.name for lock in request.locks)
    return str(request.name)


def renewal_of(grant: Message, with_lease: bool) -> Request:
    """Return the request that renews a grant, with the same lease if `with_lease`."""
    request: Message
    if is_lock(grant):
        kind = "renew"
        request = lock_pb2.RenewRequest(name=grant.name, owner=grant.owner, mode=grant.mode)
    else:
        kind = "renew_permits"
        request = semaphore_pb2.RenewPermitsRequest(
            name=grant.name, owner=grant.owner, permit_ids=grant.permit_ids
        )
    if with_lease:
        request.lease.CopyFrom(grant.lease)
    return kind, request


def release_of(grants: Sequence[Message]) -> Request:
    """Return the request that releases what one request acquired."""
    first = grants[0]
    if not is_lock(first):
        return "release_permits", semaphore_pb2.ReleasePermitsRequest(
            name=first.name, owner=first.owner, permit_ids=first.permit_ids
        )
    if len(grants) == 1:
        return "release", lock_pb2.ReleaseRequest(
            name=first.name, owner=first.owner, mode=first.mode
        )
    locks = [lock_pb2.LockSpec(name=it.name, mode=it.mode) for it in grants]
    return "release_all", lock_pb2.ReleaseAllRequest(owner=first.owner, locks=locks)


def grants_in(kind: str, response: Message) -> list[Message]:
    """Return the grants in an answer; none if nothing was granted."""
    if kind in ("granted", "permits_granted"):
        return [response]
    if kind == "granted_all" or (kind == "tried_all" and response.acquired):
        return list(response.grants)
    if kind == "claimed" or (kind in ("tried", "permits_tried") and response.acquired):
        return [response.grant]
    return []


def refusal_in(name: str, kind: str, response: Message) -> Error:
    """Return why a wait or a try was answered without a grant."""
    reason = "WAIT_TIMEOUT"
    if kind in ("not_granted", "permits_not_granted", "latch_not_opened"):
        reason = not_granted_reason(response.reason)
    if kind in ("permits_not_granted", "permits_tried"):
        return NotGranted(name, reason, available=response.available)
    if kind == "latch_not_opened":
        return NotGranted(name, reason)
    lease = note = None
    if response.HasField("holder_remaining_lease"):
        lease = seconds(response.holder_remaining_lease)
    if response.HasField("holder_note"):
        note = response.holder_note
    return NotGranted(name, reason, holder_remaining_lease=lease, holder_note=note)


def loss_in(error: Refused) -> str | None:
    """Return why a grant is lost, if the refusal of its renewal says so."""
    if error.reason != "NOT_OWNER":
        return None
    return "TAKEN_OVER" if error.metadata.get("state") == "held_by_another" else "EXPIRED"
