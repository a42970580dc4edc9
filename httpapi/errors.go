package httpapi

import (
	"errors"
	"fmt"

	"github.com/spoolraft/spoolraft/fsm"
)

// problem is a refusal as the client sees it. Problems without details are
// shared and must not be changed.
type problem struct {
	status            int
	kind              string // "" where the contract gives none
	message           string
	details           any   // nil where the contract gives none
	retryAfterSeconds int64 // 0: no Retry-After
	outcome           string
}

// label is the outcome that metrics count the problem under.
func (p *problem) label() string {
	if p.kind != "" {
		return p.kind
	}
	return p.outcome
}

// The table of refusals. A message states the fact, what it means for the
// caller's message, and what to do.
var (
	problemUnauthorized = &problem{status: 401, outcome: "unauthorized",
		message: "The call carries no key that this server knows, so it was refused and nothing was changed. Send the header Authorization: Bearer KEY with a valid key."}
	problemBlocked = &problem{status: 403, outcome: "forbidden",
		message: "This key is blocked, so the call was refused and nothing was changed. Ask whoever runs this server for another key."}
	problemSuspended = &problem{status: 402, outcome: "spool_suspended",
		message: "The spool is suspended, so the call was refused and nothing was changed. Its messages are kept; ask whoever runs this server to resume the spool."}

	problemInvalidToken = &problem{status: 400, kind: "invalid_token",
		message: "The lease or handle is missing, malformed, of the wrong sort or of another cluster, so nothing was changed. Send the token exactly as it was given to you, in the header that it came in."}
	problemDedupDisabled = &problem{status: 400, kind: "dedup_disabled",
		message: "The queue remembers no keys, so this keyed send was refused and nothing was stored. Set dedupWindowSeconds on the queue, or send without a key."}

	problemSpoolNotFound = &problem{status: 404, kind: "spool_not_found",
		message: "The spool does not exist, so nothing was changed. Check its name."}
	problemPathNotFound = &problem{status: 404, outcome: "path_not_found",
		message: "There is nothing under this path, so nothing was changed. Check the path; /openapi.yaml lists every call."}
	problemMethod = &problem{status: 405, outcome: "method_not_allowed",
		message: "This path does not take that method, so nothing was changed. The Allow header lists the methods that it takes."}
	problemSlowBody = &problem{status: 408, outcome: "body_timeout",
		message: "The body did not arrive in time, so the call was refused and nothing was changed. Send it again over a faster connection."}

	problemQueueExists = &problem{status: 409, kind: "queue_exists",
		message: "The queue exists already, so it was not created and its settings were left as they are. Use PATCH to change its settings."}
	problemQueueDeleting = &problem{status: 409, kind: "queue_deleting",
		message: "The queue is being deleted and does not take this call, so nothing was changed. Wait until it is gone, or use another queue."}
	problemQueueReplaced = &problem{status: 409, kind: "queue_replaced",
		message: "The queue under this name is not the one with the given uid, so nothing was deleted. The queue you meant is gone already."}
	problemNotFailed = &problem{status: 409, kind: "not_failed",
		message: "Only a failed message can be recovered and this one has not failed, so it was left as it is."}
	problemDedupInFlight = &problem{status: 409, kind: "dedup_in_flight",
		message: "A send with the same key is under way and its outcome is not known yet, so this one stored nothing. Send it again in a moment to learn the outcome."}

	problemStaleToken = &problem{status: 410, kind: "stale_token",
		message: "The lease or handle no longer names the message as it is: the message was settled, its lease expired, or it moved on. Nothing was changed; do not retry with this token."}
	problemNoLength = &problem{status: 411, outcome: "length_required",
		message: "The body has no declared length, so it was not read and nothing was changed. Send a Content-Length header and no chunked encoding."}

	problemUnavailable = &problem{status: 503, outcome: "unavailable", retryAfterSeconds: 1,
		message: "The cluster cannot take this call right now. It was not carried out and will not be; send it again after the time in Retry-After."}
	problemUnreadable = &problem{status: 503, outcome: "unavailable", retryAfterSeconds: 1,
		message: "The cluster cannot answer this read right now, and it changed nothing. Send it again after the time in Retry-After."}
	problemUnconfirmed = &problem{status: 500, kind: "operation_unconfirmed",
		message: "The outcome of this call is unknown: it may have been carried out or may yet be. Repeat a send with the same dedup key to learn its outcome without storing it twice; check before you repeat anything else."}
)

var problemClusterUnconfirmed = &problem{status: 500, kind: "operation_unconfirmed",
	message: "The outcome of this change of the cluster is unknown: it may have been carried out or may yet be. Look at GET /v1/cluster before you repeat it."}

// clusterRefusals are the kinds of refused changes of the cluster. Their messages
// name nodes, and come with the refusal.
var clusterRefusals = map[string]int{
	"node_not_found":   404,
	"not_a_voter":      409,
	"node_unreachable": 409,
	"node_behind":      409,
	"no_majority_left": 409,
	"last_voter":       409,
	"no_successor":     409,
}

func problemOfRefusal(r *ClusterRefusal) *problem {
	status := clusterRefusals[r.Kind]
	if status == 0 {
		return problemClusterUnconfirmed
	}
	return &problem{status: status, kind: r.Kind, details: map[string]any{"node": r.Node}, message: r.Message}
}

// badRequest is a 400 without a kind. The fact is a clause without its full stop.
func badRequest(format string, args ...any) *problem {
	return &problem{status: 400, outcome: "bad_request",
		message: fmt.Sprintf(format, args...) + ". Nothing was changed; correct the request and send it again."}
}

func problemUnknownHeader(name string) *problem {
	return &problem{status: 400, kind: "unknown_header", details: map[string]any{"header": name},
		message: "This call does not take the header " + name + ", so nothing was changed. Remove the header or correct its name."}
}

func problemScope(need Scope) *problem {
	return &problem{status: 403, outcome: "forbidden",
		message: "This key lacks the scope " + need.String() + " that the call needs, so nothing was changed. Use a key that has it."}
}

func problemQueueNotFound(queue string) *problem {
	return &problem{status: 404, kind: "queue_not_found", details: map[string]any{"queue": queue},
		message: "The queue " + queue + " does not exist in this spool, so nothing was changed. Create it first, or check its name."}
}

func problemRetention(maxSeconds uint64) *problem {
	return &problem{status: 403, kind: "retention_limit", details: map[string]any{"maxSeconds": maxSeconds},
		message: fmt.Sprintf("The spool allows a retention of at most %d seconds, so nothing was changed. Ask for that or less.", maxSeconds)}
}

func problemQueueLimit(limit uint64) *problem {
	return &problem{status: 403, kind: "queue_limit", details: map[string]any{"max": limit},
		message: fmt.Sprintf("The spool has all the %d queues that it may have, so the queue was not created. Delete one that is no longer needed, or ask for a higher limit.", limit)}
}

func problemDedupClaimed(id fsm.MessageID) *problem {
	text := formatID(id)
	return &problem{status: 409, kind: "dedup_claimed", details: map[string]any{"id": text},
		message: "The key is remembered for message " + text + ", so nothing was stored and the lease was not acked. If that message is the one that you meant to send, ack the lease by itself."}
}

func problemTooLarge(what string, limit int64) *problem {
	return &problem{status: 413, kind: "payload_too_large",
		message: fmt.Sprintf("The %s is larger than the %d bytes that this server takes, so nothing was changed. Send less.", what, limit)}
}

func problemRateLimited(retryAfterMs int64) *problem {
	return &problem{status: 429, kind: "rate_limited", retryAfterSeconds: max(1, (retryAfterMs+999)/1000),
		message: "The queue's receive limit is reached, so no message was delivered. Receive again after the time in Retry-After."}
}

// capNames are the names of a spool's caps in answers.
var capNames = [...]string{fsm.CapMessages: "messages", fsm.CapDataBytes: "dataBytes", fsm.CapDedupKeys: "dedupKeys"}

func problemSpoolFull(limit fsm.CapKind, most uint64) *problem {
	name := ""
	if int(limit) < len(capNames) {
		name = capNames[limit]
	}
	return &problem{status: 507, kind: "spool_full", details: map[string]any{"limit": name, "max": most},
		message: fmt.Sprintf("The spool has reached its limit of %d %s, so the message was not stored. Receive and settle messages, or wait for some to expire, and send it again.", most, name)}
}

// problemOfError is the answer to a failure of agreement about a change. Only
// what provably entered no log is a 503.
func problemOfError(err error) *problem {
	if errors.Is(err, fsm.ErrNotApplied) || errors.Is(err, fsm.ErrClosed) {
		return problemUnavailable
	}
	return problemUnconfirmed
}

// problemOfResult is the answer to a result's refusal, nil where it is none.
func problemOfResult(r *fsm.Result, queue string) *problem {
	switch r.Code {
	case fsm.CodeRateLimited:
		return problemRateLimited(r.RetryAfterMs)
	case fsm.CodeSpoolFull:
		return problemSpoolFull(r.Cap, r.Max)
	case fsm.CodeRetentionLimit:
		return problemRetention(r.Max)
	case fsm.CodeQueueLimit:
		return problemQueueLimit(r.Max)
	case fsm.CodeDedupClaimed:
		return problemDedupClaimed(r.ID)
	default:
		return problemOfCode(r.Code, queue)
	}
}

// problemOfCode is the answer to a code that needs no more of a result than
// itself, nil where the code is no refusal.
func problemOfCode(code fsm.Code, queue string) *problem {
	switch code {
	case fsm.CodeOK, fsm.CodeDuplicate, fsm.CodeEmpty:
		return nil
	case fsm.CodeQueueNotFound:
		return problemQueueNotFound(queue)
	case fsm.CodeSpoolNotFound:
		return problemSpoolNotFound
	case fsm.CodeSpoolSuspended:
		return problemSuspended
	case fsm.CodeQueueExists:
		return problemQueueExists
	case fsm.CodeQueueDeleting:
		return problemQueueDeleting
	case fsm.CodeQueueReplaced:
		return problemQueueReplaced
	case fsm.CodeNotFailed:
		return problemNotFailed
	case fsm.CodeDedupDisabled:
		return problemDedupDisabled
	case fsm.CodeDedupInFlight:
		return problemDedupInFlight
	case fsm.CodeStaleToken:
		return problemStaleToken
	case fsm.CodeInvalidToken:
		return problemInvalidToken
	case fsm.CodeInvalidCommand:
		return badRequest("A value of this call is out of its bounds")
	case fsm.CodeNotInitialised:
		return problemUnavailable
	default:
		// A code of a later version: whether it changed something is not known here.
		return problemUnconfirmed
	}
}
