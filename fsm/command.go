package fsm

// Op is the number of a command. Numbers are part of the log format: they are
// never reused, and a node that meets one it does not know stops.
type Op uint8

// The commands. The comment names the fields of [Command] that each takes
// beside Op. All take Spool, but OpInit and those of documents and claims, except
// for OpClaimAndSend.
const (
	OpInit        Op = 1  // Secret, ClusterID. First of every log; repeated, it changes nothing.
	OpSetCaps     Op = 2  // Caps, Suspended.
	OpCreateQueue Op = 3  // Queue, Patch (applied to the defaults).
	OpUpdateQueue Op = 4  // Queue, Patch.
	OpDeleteQueue Op = 5  // Queue, Drain, UID ("" matches any).
	OpSend        Op = 6  // Queue, DelaySeconds, Keyed, Key, Payload.
	OpReceive     Op = 7  // Queue.
	OpAck         Op = 8  // Token (lease).
	OpNack        Op = 9  // Token (lease).
	OpRelease     Op = 10 // Token (lease), DelaySeconds.
	OpFail        Op = 11 // Token (lease).
	OpDiscard     Op = 12 // Token (lease or handle).
	OpRenew       Op = 13 // Token (lease).
	OpRecover     Op = 14 // Token (handle), DelaySeconds.
	OpAckAndSend  Op = 15 // Token (lease), and what OpSend takes.
	OpReceiveMany Op = 16 // Queue, Count, MaxBytes.

	OpPutDocument    Op = 17 // Kind, Name, Version (0 matches any), Payload.
	OpDeleteDocument Op = 18 // Kind, Name, Version (0 matches any).
	OpClaim          Op = 19 // Name (of a channel), Key, Owner, WindowSeconds, LapseMs, MaxKeys.
	OpSettleClaim    Op = 20 // Name, Key, Owner, WindowSeconds.
	OpReleaseClaim   Op = 21 // Name, Key, Owner.
	OpClaimAndSend   Op = 22 // Name, Key, Owner, WindowSeconds, MaxKeys, and of what OpSend takes Queue, DelaySeconds, Payload.

	// LastOp is the highest number that this version knows. Nodes tell it each
	// other: what not all of them know must not enter the log.
	LastOp = OpClaimAndSend
)

// SecretBytes is the length of the cluster's secret.
const SecretBytes = 32

// Secret is the key under which tokens are made. It lives in the replicated
// state, so that every node accepts every node's tokens.
type Secret [SecretBytes]byte

// Command is one change that somebody asks for. It is flat, with the fields
// that its Op does not take left zero, so that a batch is one allocation.
type Command struct {
	Op           Op
	Drain        bool // OpDeleteQueue: go with the last message, rather than at once
	Keyed        bool // Key is set
	Suspended    bool
	DelaySeconds uint32
	Count        uint32 // OpReceiveMany: messages at most
	MaxBytes     uint32 // OpReceiveMany: of payload at most, beyond one message

	WindowSeconds uint32 // for how long a claim is remembered, from now
	LapseMs       uint32 // after which others may take a claim that was not settled
	MaxKeys       uint32 // that the channel may remember
	Kind          DocumentKind
	Version       uint64 // that a document must have to be changed, 0: whatever
	Name          string // of a document or a channel
	Owner         Owner

	Spool     string
	Queue     string
	Token     Token
	Key       Fingerprint
	Payload   string
	UID       string
	Patch     Patch
	Caps      Caps
	Secret    Secret
	ClusterID string
}

// Batch is what one log entry carries: commands, and the leader's clock when
// it proposed them. A batch without commands only advances time.
type Batch struct {
	NowMs    int64 // Unix time in milliseconds
	Commands []Command
}
