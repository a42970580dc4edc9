package fsm

// Bounds of a queue's settings, inclusive, and of a delay.
const (
	MaxLeaseTimeoutSeconds = 43_200
	MaxMaxRetries          = 1_000
	MaxDedupWindowSeconds  = 604_800
	MinRetentionSeconds    = 60
	MaxRetentionSeconds    = 1_209_600
	MaxRecvIntervalMicros  = 3_600_000_000
	MaxRecvBurst           = 1_000_000
	MaxDelaySeconds        = 604_800
)

// MaxReceiveCount is how many messages one command can lease. Of payload it can
// lease as much as one message can have.
const MaxReceiveCount = 1_000

// RateLimit is a token bucket for deliveries: a token every IntervalMicros, at
// most Burst of them. The zero value is no limit.
type RateLimit struct {
	IntervalMicros uint64
	Burst          uint64
}

// Settings of a queue.
type Settings struct {
	LeaseTimeoutSeconds uint32 // 0: leases never expire
	MaxRetries          uint32
	DedupWindowSeconds  uint32 // 0: keyed sends are refused
	RetentionSeconds    uint32
	RecvRateLimit       RateLimit
}

// DefaultSettings are those of a queue that is created without any.
func DefaultSettings() Settings {
	return Settings{LeaseTimeoutSeconds: 30, MaxRetries: 5, RetentionSeconds: 345_600}
}

// Field is a set of settings, for a [Patch].
type Field uint8

// The settings that a patch can carry. The numbers are part of the log format.
const (
	FieldLeaseTimeout Field = 1 << iota
	FieldMaxRetries
	FieldDedupWindow
	FieldRetention
	FieldRecvRateLimit

	allFields = FieldLeaseTimeout | FieldMaxRetries | FieldDedupWindow | FieldRetention | FieldRecvRateLimit
)

// Patch changes the settings named in Set and leaves the others.
type Patch struct {
	Set Field
	To  Settings
}

// FullPatch sets every setting to that of s.
func FullPatch(s Settings) Patch { return Patch{Set: allFields, To: s} }

// Valid reports whether every setting that the patch carries is within its
// bounds.
func (p Patch) Valid() bool {
	t := p.To
	rate := t.RecvRateLimit
	switch {
	case p.Set&^allFields != 0:
	case p.Set&FieldLeaseTimeout != 0 && t.LeaseTimeoutSeconds > MaxLeaseTimeoutSeconds:
	case p.Set&FieldMaxRetries != 0 && t.MaxRetries > MaxMaxRetries:
	case p.Set&FieldDedupWindow != 0 && t.DedupWindowSeconds > MaxDedupWindowSeconds:
	case p.Set&FieldRetention != 0 && (t.RetentionSeconds < MinRetentionSeconds || t.RetentionSeconds > MaxRetentionSeconds):
	case p.Set&FieldRecvRateLimit != 0 && (rate.IntervalMicros == 0) != (rate.Burst == 0):
	case p.Set&FieldRecvRateLimit != 0 && (rate.IntervalMicros > MaxRecvIntervalMicros || rate.Burst > MaxRecvBurst):
	default:
		return true
	}
	return false
}

func (p Patch) apply(s Settings) Settings {
	if p.Set&FieldLeaseTimeout != 0 {
		s.LeaseTimeoutSeconds = p.To.LeaseTimeoutSeconds
	}
	if p.Set&FieldMaxRetries != 0 {
		s.MaxRetries = p.To.MaxRetries
	}
	if p.Set&FieldDedupWindow != 0 {
		s.DedupWindowSeconds = p.To.DedupWindowSeconds
	}
	if p.Set&FieldRetention != 0 {
		s.RetentionSeconds = p.To.RetentionSeconds
	}
	if p.Set&FieldRecvRateLimit != 0 {
		s.RecvRateLimit = p.To.RecvRateLimit
	}
	return s
}

// Caps are the limits of a spool. A zero is no limit.
type Caps struct {
	MaxMessages         uint64
	MaxDataBytes        uint64 // payload bytes
	MaxDedupKeys        uint64
	MaxQueues           uint64
	MaxRetentionSeconds uint32
}
