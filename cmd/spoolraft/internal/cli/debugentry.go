package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spoolraft/spoolraft/cluster"
	"github.com/spoolraft/spoolraft/fsm"
)

// logLine is an entry of a log as it is printed.
type logLine struct {
	Index      uint64        `json:"index"`
	Term       uint64        `json:"term,omitempty"`
	Kind       string        `json:"kind"`
	AppendedAt *time.Time    `json:"appendedAt,omitempty"` // by the leader's clock
	LogTime    *time.Time    `json:"logTime,omitempty"`    // that the batch brings
	Commands   []commandLine `json:"commands,omitempty"`
	Members    []string      `json:"members,omitempty"`
	Hash       string        `json:"hash,omitempty"`
	Damage     string        `json:"damage,omitempty"`
}

// commandLine is one command.
type commandLine struct {
	Op            string         `json:"op"`
	Spool         string         `json:"spool,omitempty"`
	Queue         string         `json:"queue,omitempty"`
	Token         *tokenLine     `json:"token,omitempty"`
	DelaySeconds  uint32         `json:"delaySeconds,omitempty"`
	Max           uint32         `json:"max,omitempty"` // messages to receive
	Fingerprint   string         `json:"fingerprint,omitempty"`
	PayloadBytes  *int           `json:"payloadBytes,omitempty"`
	PayloadDigest string         `json:"payloadDigest,omitempty"`
	Payload       []byte         `json:"payloadBase64,omitempty"`
	Mode          string         `json:"mode,omitempty"` // of a removal
	UID           string         `json:"uid,omitempty"`
	Settings      map[string]any `json:"settings,omitempty"` // those that are set
	Caps          map[string]any `json:"caps,omitempty"`
	ClusterID     string         `json:"clusterId,omitempty"`
	Result        *resultLine    `json:"result,omitempty"`
}

// tokenLine is the lease or the handle that a command came with.
type tokenLine struct {
	Sort  string `json:"sort"`
	ID    string `json:"id"`
	Moves uint32 `json:"moves"`
}

// resultLine is what became of a command.
type resultLine struct {
	Outcome        string     `json:"outcome"`
	Kind           string     `json:"kind,omitempty"` // of a refusal
	ID             string     `json:"id,omitempty"`
	IDs            []string   `json:"ids,omitempty"` // of the messages received
	Retries        *uint32    `json:"retries,omitempty"`
	LeaseExpiresAt *time.Time `json:"leaseExpiresAt,omitempty"`
}

// The outcomes of a command.
const (
	outcomeAppended  = "appended"
	outcomeDuplicate = "duplicate"
	outcomeGranted   = "granted"
	outcomeEmpty     = "empty"
	outcomeDone      = "done"
	outcomeRefused   = "refused"
)

// opNames are the commands, under the names that the API's operations have in
// metrics.
var opNames = map[fsm.Op]string{
	fsm.OpInit: "init", fsm.OpSetCaps: "set_caps",
	fsm.OpCreateQueue: "queue_create", fsm.OpUpdateQueue: "queue_update", fsm.OpDeleteQueue: "queue_delete",
	fsm.OpSend: "send", fsm.OpReceive: "receive", fsm.OpReceiveMany: "receive_batch", fsm.OpAck: "ack", fsm.OpNack: "nack", fsm.OpRelease: "release",
	fsm.OpFail: "fail", fsm.OpDiscard: "discard", fsm.OpRenew: "renew", fsm.OpRecover: "recover", fsm.OpAckAndSend: "ack_and_send",
}

// refusalKinds are the machine's refusals, under their kinds in the API where
// they have one.
var refusalKinds = map[fsm.Code]string{
	fsm.CodeQueueNotFound: "queue_not_found", fsm.CodeSpoolNotFound: "spool_not_found", fsm.CodeSpoolSuspended: "spool_suspended",
	fsm.CodeQueueExists: "queue_exists", fsm.CodeQueueDeleting: "queue_deleting", fsm.CodeQueueReplaced: "queue_replaced",
	fsm.CodeNotFailed: "not_failed", fsm.CodeDedupDisabled: "dedup_disabled", fsm.CodeDedupInFlight: "dedup_in_flight",
	fsm.CodeDedupClaimed: "dedup_claimed", fsm.CodeStaleToken: "stale_token", fsm.CodeInvalidToken: "invalid_token",
	fsm.CodeRateLimited: "rate_limited", fsm.CodeSpoolFull: "spool_full", fsm.CodeRetentionLimit: "retention_limit",
	fsm.CodeQueueLimit: "queue_limit", fsm.CodeInvalidCommand: "invalid_command", fsm.CodeNotInitialised: "not_initialised",
}

func describeEntry(e cluster.LogEntry, payloads bool) logLine {
	l := logLine{Index: e.Index, Term: e.Term, Kind: e.Kind, AppendedAt: instantOf(e.AppendedAt), Members: e.Members, Damage: e.Damage}
	if e.Kind == cluster.EntryBatch {
		l.LogTime = instantOf(time.UnixMilli(e.Batch.NowMs))
	}
	if e.Replayed {
		l.Hash = hashText(e.Hash)
	}
	for n := range e.Batch.Commands {
		c := describeCommand(&e.Batch.Commands[n], payloads)
		if e.Results != nil {
			c.Result = describeResult(&e.Batch.Commands[n], &e.Results[n])
		}
		l.Commands = append(l.Commands, c)
	}
	return l
}

// instantOf is nil for no time.
func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

// describeCommand leaves the cluster's secret out.
func describeCommand(c *fsm.Command, payloads bool) commandLine {
	l := commandLine{
		Op: opNames[c.Op], Spool: c.Spool, Queue: c.Queue, DelaySeconds: c.DelaySeconds, Max: c.Count, UID: c.UID, ClusterID: c.ClusterID,
		Settings: settingsOf(c.Patch),
	}
	if l.Op == "" {
		l.Op = fmt.Sprintf("command %d", c.Op)
	}
	if c.Keyed {
		l.Fingerprint = hex.EncodeToString(c.Key[:])
	}
	if c.Token.Sort != 0 {
		l.Token = &tokenLine{Sort: "lease", ID: messageID(c.Token.Queue, c.Token.Message), Moves: c.Token.Moves}
		if c.Token.Sort == fsm.Handle {
			l.Token.Sort = "handle"
		}
	}
	switch c.Op {
	case fsm.OpSend, fsm.OpAckAndSend:
		sum, size := sha256.Sum256([]byte(c.Payload)), len(c.Payload)
		l.PayloadBytes, l.PayloadDigest = &size, hex.EncodeToString(sum[:8])
		if payloads {
			l.Payload = []byte(c.Payload)
		}
	case fsm.OpDeleteQueue:
		l.Mode = "force"
		if c.Drain {
			l.Mode = "drain"
		}
	case fsm.OpSetCaps:
		l.Caps = map[string]any{
			"maxMessages": c.Caps.MaxMessages, "maxDataBytes": c.Caps.MaxDataBytes, "maxDedupKeys": c.Caps.MaxDedupKeys,
			"maxQueues": c.Caps.MaxQueues, "maxRetentionSeconds": c.Caps.MaxRetentionSeconds, "suspended": c.Suspended,
		}
	}
	return l
}

func messageID(queue, message uint64) string { return fmt.Sprintf("%d-%d", queue, message) }

// settingsOf are the settings that a patch carries, by their names in the API.
func settingsOf(p fsm.Patch) map[string]any {
	all := []struct {
		field fsm.Field
		name  string
		value any
	}{
		{fsm.FieldLeaseTimeout, "leaseTimeoutSeconds", p.To.LeaseTimeoutSeconds},
		{fsm.FieldMaxRetries, "maxRetries", p.To.MaxRetries},
		{fsm.FieldDedupWindow, "dedupWindowSeconds", p.To.DedupWindowSeconds},
		{fsm.FieldRetention, "retentionSeconds", p.To.RetentionSeconds},
		{fsm.FieldRecvRateLimit, "recvRateLimit", map[string]uint64{"intervalMicros": p.To.RecvRateLimit.IntervalMicros, "burst": p.To.RecvRateLimit.Burst}},
	}
	var set map[string]any
	for _, s := range all {
		if p.Set&s.field != 0 {
			if set == nil {
				set = make(map[string]any)
			}
			set[s.name] = s.value
		}
	}
	return set
}

func describeResult(c *fsm.Command, r *fsm.Result) *resultLine {
	l := &resultLine{Outcome: outcomeDone}
	if r.ID != (fsm.MessageID{}) {
		l.ID = messageID(r.ID.Queue, r.ID.Message)
	}
	for _, d := range r.Deliveries {
		l.Outcome = outcomeGranted
		l.IDs = append(l.IDs, messageID(d.ID.Queue, d.ID.Message))
	}
	if r.LeaseExpiresAtMs != 0 {
		l.LeaseExpiresAt = instantOf(time.UnixMilli(r.LeaseExpiresAtMs))
	}
	switch {
	case r.Code == fsm.CodeOK && c.Op == fsm.OpReceive:
		l.Outcome, l.Retries = outcomeGranted, &r.Retries
	case r.Code == fsm.CodeOK && l.ID != "":
		l.Outcome = outcomeAppended
	case r.Code == fsm.CodeOK:
	case r.Code == fsm.CodeDuplicate:
		l.Outcome = outcomeDuplicate
	case r.Code == fsm.CodeEmpty:
		l.Outcome = outcomeEmpty
	default:
		l.Outcome, l.Kind = outcomeRefused, refusalKinds[r.Code]
		if l.Kind == "" {
			l.Kind = fmt.Sprintf("code %d", r.Code)
		}
	}
	return l
}
