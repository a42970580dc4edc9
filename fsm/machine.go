package fsm

// Machine is the replicated state. It is not safe for concurrent use; an
// [Image] of it is.
type Machine struct{}

type queue struct{}

// New returns a machine that has applied nothing.
func New() *Machine { panic("todo") }

// Apply applies the batch of the log entry at index and returns a result for
// each command. It is deterministic: equal machines that apply equal batches
// are equal again and return equal results.
func (m *Machine) Apply(index uint64, b Batch) []Result { panic("todo") }

// AppliedIndex is the index of the last entry applied, 0 before the first.
func (m *Machine) AppliedIndex() uint64 { panic("todo") }

// NowMs is log time: the latest time of any batch applied.
func (m *Machine) NowMs() int64 { panic("todo") }

// ClusterID is what OpInit brought, "" before.
func (m *Machine) ClusterID() string { panic("todo") }

// Sealer makes and opens tokens. It is not ok before OpInit.
func (m *Machine) Sealer() (s Sealer, ok bool) { panic("todo") }

// Hash is a digest of the whole state, kept up to date by every change. It is
// equal on all nodes at equal index.
func (m *Machine) Hash() uint64 { panic("todo") }

// NextDueMs is when the next expiry is due, so that somebody should apply a
// batch at or after it even without traffic.
func (m *Machine) NextDueMs() (dueMs int64, ok bool) { panic("todo") }

// Receivable says what a receive would find at nowMs, without changing
// anything: CodeOK where something is visible, CodeEmpty where nothing is (then
// wakeAtMs is when something will be without another command, 0 for never), or
// the refusal. visible is how many receives could succeed, for waking as many.
func (m *Machine) Receivable(spool, queue string, nowMs int64) (code Code, visible int, wakeAtMs int64) {
	panic("todo")
}

// SpoolState is CodeOK, CodeSpoolNotFound or CodeSpoolSuspended.
func (m *Machine) SpoolState(spool string) Code { panic("todo") }

// Image returns the machine as it is. Needs the same exclusion as Apply.
func (m *Machine) Image() *Image { panic("todo") }

// ImageAt returns the machine as it would be after an empty batch at nowMs,
// with every expiry due by then done. Needs the same exclusion as Apply.
func (m *Machine) ImageAt(nowMs int64) *Image { panic("todo") }

// Read answers a light query (see [Query.Light]) as of nowMs. It changes
// nothing, so that it may run beside other readers.
func (m *Machine) Read(nowMs int64, q Query) Answer { panic("todo") }
