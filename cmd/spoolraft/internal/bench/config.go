package bench

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Mode is what a client does again and again.
type Mode string

// The modes.
const (
	ModeSend      Mode = "send"       // send a message
	ModeSendBatch Mode = "send-batch" // send many in one call
	ModeCycle     Mode = "cycle"      // send one, receive one, ack it
	ModeWait      Mode = "wait"       // wait for a message, and ack it, while others send
)

// series are the names of what each mode measures, first that of its operations.
var series = map[Mode][]string{
	ModeSend:      {"send"},
	ModeSendBatch: {"send-batch"},
	ModeCycle:     {"cycle", "send", "receive", "ack"},
	ModeWait:      {"from send to receive", "send", "ack"},
}

// Config is what to measure.
type Config struct {
	Mode   Mode
	Nodes  []string // addresses of APIs; clients spread over them
	Key    string
	Spool  string
	Queues []string // that exist; clients spread over them

	Clients       int
	RatePerSecond float64 // operations that are due; 0: a closed loop
	Warmup        time.Duration
	Duration      time.Duration
	Timeout       time.Duration // of a call

	SizeBytes int // of a payload
	Keyed     bool
	Batch     int  // messages a send-batch
	JSON      bool // of batches, instead of the binary encoding

	// Progress is told every second how it goes. It may be nil.
	Progress func(Progress)

	dial dialFunc // nil: TCP
}

// Bounds of a configuration.
const (
	MaxClients   = 100_000
	MaxBatch     = 1_000
	MaxSizeBytes = 32 << 20
	// waitSenders is how many clients send for those who wait.
	waitSenders = 16
)

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Check says what is wrong with the configuration.
func (c *Config) Check() error {
	switch {
	case series[c.Mode] == nil:
		return fmt.Errorf("the mode must be send, send-batch, cycle or wait, and is %q", c.Mode)
	case len(c.Nodes) == 0 || len(c.Queues) == 0:
		return fmt.Errorf("there must be a node and a queue")
	case c.Clients < 1 || c.Clients > MaxClients:
		return fmt.Errorf("there must be 1 to %d clients", MaxClients)
	case c.Duration <= 0 || c.Warmup < 0 || c.Timeout <= 0:
		return fmt.Errorf("the durations must be positive")
	case c.RatePerSecond < 0 || c.RatePerSecond > 1e6:
		return fmt.Errorf("the rate must be 0 to 1,000,000 a second")
	case c.Mode == ModeWait && c.RatePerSecond == 0:
		return fmt.Errorf("those who wait need a rate at which messages come")
	case c.Batch < 1 || c.Batch > MaxBatch:
		return fmt.Errorf("a batch must have 1 to %d messages", MaxBatch)
	case c.SizeBytes < 0 || c.SizeBytes > MaxSizeBytes:
		return fmt.Errorf("a payload must have 0 to %d bytes", MaxSizeBytes)
	case c.Mode == ModeWait && c.SizeBytes < stampBytes:
		return fmt.Errorf("a payload of this mode must have at least %d bytes, since it carries when it was due", stampBytes)
	}
	return nil
}
