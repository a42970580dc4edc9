package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// forge makes a snapshot of blocks with right checksums.
type forge struct {
	data []byte
	sum  uint32
}

func newForge(version uint32) *forge {
	f := &forge{data: binary.LittleEndian.AppendUint32([]byte(magic), version)}
	f.sum = crc32.Checksum(f.data, castagnoli)
	f.data = binary.LittleEndian.AppendUint32(f.data, f.sum)
	return f
}

func (f *forge) block(kind byte, payload []byte) *forge {
	frame := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	f.sum = blockSum(f.sum, frame, payload)
	f.data = append(f.data, frame...)
	f.data = binary.LittleEndian.AppendUint32(f.data, f.sum)
	f.data = append(f.data, payload...)
	return f
}

// emptyMachine has had a queue and a channel, which are gone.
func emptyMachine() *fsm.Machine {
	m := fsm.New()
	m.Apply(1, fsm.Batch{Commands: []fsm.Command{
		{Op: fsm.OpInit, ClusterID: "c"},
		{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "q"},
		{Op: fsm.OpDeleteQueue, Spool: fsm.DefaultSpool, Queue: "q"},
		{Op: fsm.OpPutDocument, Kind: fsm.ChannelDocument, Name: "in"},
		{Op: fsm.OpDeleteDocument, Kind: fsm.ChannelDocument, Name: "in"},
	}})
	return m
}

func emptyHeader() []byte { return appendHeader(nil, emptyMachine().Image().Header(), Version) }

func emptyBody() (spools []byte, n counts) {
	for s := range emptyMachine().Image().Spools() {
		spools = appendSpool(spools, s)
		n.spools++
	}
	return spools, n
}

func emptyForge() (*forge, counts) {
	f := newForge(Version).block(blockHeader, emptyHeader())
	spools, n := emptyBody()
	return f.block(blockRecords, spools), n
}

// queue is a record that fits an empty machine.
var queue = fsm.QueueRecord{
	Number: 1, Spool: fsm.DefaultSpool, Name: "q", State: fsm.QueueActive, NextMessage: 2,
	Settings: fsm.Settings{DedupWindowSeconds: 60, RetentionSeconds: 60},
}

// channel is one, too. The forge's header says that there was a change.
var channel = fsm.ChannelRecord{DocumentRecord: fsm.DocumentRecord{Name: "in", Version: 1, Document: "{}"}}

func TestForgedSnapshots(t *testing.T) {
	message := fsm.MessageRecord{Number: 1, State: fsm.StateVisible}
	header := emptyHeader()
	for _, c := range []struct {
		name string
		make func(f *forge, n counts)
		want string
	}{
		{"no header", func(f *forge, n counts) { *f = *newForge(Version).block(blockEnd, appendEnd(nil, n, Version)) }, "where the header should be"},
		{"long header", func(f *forge, n counts) { *f = *newForge(Version).block(blockHeader, append(header, 0)) }, "the header: a record is not"},
		{"short header", func(f *forge, n counts) { *f = *newForge(Version).block(blockHeader, header[:len(header)-1]) }, "the header: a record is not"},
		{"two headers", func(f *forge, n counts) { f.block(blockHeader, header) }, "a block of kind 1"},
		{"unknown block", func(f *forge, n counts) { f.block(9, []byte{1}) }, "a block of kind 9"},
		{"unknown record", func(f *forge, n counts) { f.block(blockRecords, []byte{9}) }, "a record of kind 9"},
		{"message without a queue", func(f *forge, n counts) { f.block(blockRecords, appendMessage(nil, message)) }, "a record of kind 3"},
		{"claim without a queue", func(f *forge, n counts) { f.block(blockRecords, appendClaim(nil, fsm.ClaimRecord{})) }, "a record of kind 4"},
		{"message after a claim", func(f *forge, n counts) {
			f.block(blockRecords, appendMessage(appendClaim(appendQueue(nil, queue), fsm.ClaimRecord{Message: 1}), message))
		}, "does not belong here"},
		{"spool after a queue", func(f *forge, n counts) {
			f.block(blockRecords, appendSpool(appendQueue(nil, queue), fsm.SpoolRecord{Name: "z"}))
		}, "a record of kind 1"},
		{"claim of a channel without one", func(f *forge, n counts) {
			f.block(blockRecords, appendChannelClaim(nil, fsm.ChannelClaimRecord{}))
		}, "a record of kind 6"},
		{"queue after a channel", func(f *forge, n counts) {
			f.block(blockRecords, appendQueue(appendChannel(nil, channel), queue))
		}, "a record of kind 2"},
		{"channel after a connector", func(f *forge, n counts) {
			f.block(blockRecords, appendChannel(appendConnector(nil, channel.DocumentRecord), channel))
		}, "a record of kind 5"},
		{"channel of a later revision", func(f *forge, n counts) {
			later := channel
			later.Version = 3
			f.block(blockRecords, appendChannel(nil, later))
		}, "impossible version"},
		{"claim that is settled and can lapse", func(f *forge, n counts) {
			f.block(blockRecords, appendChannelClaim(appendChannel(nil, channel), fsm.ChannelClaimRecord{Settled: true, LapsesAtMs: 1, WindowEndsMs: 1}))
		}, "a claim of channel"},
		{"channel in version 1", func(f *forge, n counts) {
			header := appendHeader(nil, emptyMachine().Image().Header(), 1)
			spools, _ := emptyBody()
			*f = *newForge(1).block(blockHeader, header).block(blockRecords, appendChannel(spools, channel))
		}, "a record of kind 5"},
		{"half a record", func(f *forge, n counts) { f.block(blockRecords, appendQueue(nil, queue)[:9]) }, "a record is not"},
		{"queue that the hash does not know", func(f *forge, n counts) {
			n.queues++
			f.block(blockRecords, appendQueue(nil, queue)).block(blockEnd, appendEnd(nil, n, Version))
		}, "hash"},
		{"wrong counts", func(f *forge, n counts) {
			n.messages++
			f.block(blockEnd, appendEnd(nil, n, Version))
		}, "it holds 1 spools, 0 queues, 0 messages and 0 remembered keys, and should hold"},
		{"long end", func(f *forge, n counts) { f.block(blockEnd, append(appendEnd(nil, n, Version), 0)) }, "the end: "},
		{"no end", func(f *forge, n counts) {}, "cut short"},
		{"empty block", func(f *forge, n counts) { f.block(blockRecords, nil) }, "0 bytes"},
		{"records after the end", func(f *forge, n counts) {
			f.block(blockEnd, appendEnd(nil, n, Version)).block(blockRecords, appendQueue(nil, queue))
		}, "bytes follow"},
		{"no snapshot", func(f *forge, n counts) { f.data = []byte("PK\x03\x04 is something else") }, "does not begin as a snapshot does"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, n := emptyForge()
			c.make(f, n)
			m, err := Read(bytes.NewReader(f.data))
			var damaged *DamagedError
			if m != nil || !errors.As(err, &damaged) {
				t.Fatalf("got machine %v, error %v; want a DamagedError", m != nil, err)
			}
			if !strings.Contains(damaged.What, c.want) {
				t.Errorf("it says %q, want %q in it", damaged.What, c.want)
			}
		})
	}
	t.Run("the forge itself", func(t *testing.T) {
		f, n := emptyForge()
		if _, err := Read(bytes.NewReader(f.block(blockEnd, appendEnd(nil, n, Version)).data)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUnknownVersion(t *testing.T) {
	for _, v := range []uint32{0, Version + 1, 1 << 31} {
		_, err := Read(bytes.NewReader(newForge(v).data))
		var version *VersionError
		if !errors.As(err, &version) || version.Version != v {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// TestExchangedBlocksAreRefused takes whole blocks from their places.
func TestExchangedBlocksAreRefused(t *testing.T) {
	f := newForge(Version)
	at := []int{len(f.data)}
	for i := range 4 {
		f.block(blockRecords, bytes.Repeat([]byte{byte(i)}, 5))
		at = append(at, len(f.data))
	}
	block := func(i int) []byte { return f.data[at[i]:at[i+1]] }
	for name, blocks := range map[string][]int{
		"missing":   {0, 2, 3},
		"repeated":  {0, 1, 1, 2},
		"exchanged": {0, 2, 1, 3},
	} {
		in := &blockReader{r: bufio.NewReader(bytes.NewReader(append(bytes.Clone(f.data[:at[0]]), joined(block, blocks)...)))}
		if err := in.preamble(); err != nil {
			t.Fatal(err)
		}
		var err error
		for range blocks {
			if _, _, err = in.next(); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func joined(block func(int) []byte, order []int) (data []byte) {
	for _, i := range order {
		data = append(data, block(i)...)
	}
	return data
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileLengths claims much and sends little.
func TestHostileLengths(t *testing.T) {
	withLength := func(n uint32, follow int) []byte {
		data := newForge(Version).data
		data = append(data, blockHeader)
		data = binary.LittleEndian.AppendUint32(data, n)
		return append(data, make([]byte, 4+follow)...)
	}
	message := binary.AppendUvarint([]byte{recordMessage, 1, byte(fsm.StateVisible), 0, 0, 0, 0, 0}, fsm.MaxPayloadBytes)
	inRecord, _ := emptyForge()
	inRecord.block(blockRecords, append(appendQueue(nil, queue), message...))
	for _, c := range []struct {
		name  string
		data  []byte
		bound uint64
	}{
		{"block of 64 MiB that has nothing", withLength(maxPayloadBytes, 0), 1 << 20},
		{"block of 64 MiB that has 300 KiB", withLength(maxPayloadBytes, 300<<10), 3 << 20},
		{"block beyond the bound", withLength(maxPayloadBytes+1, 1000), 1 << 20},
		{"block of 4 GiB", withLength(1<<32-1, 1000), 1 << 20},
		{"payload of 64 MiB in a small record", inRecord.data, 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			got := allocated(func() { _, err = Read(bytes.NewReader(c.data)) })
			var damaged *DamagedError
			if !errors.As(err, &damaged) {
				t.Errorf("error %v, want a DamagedError", err)
			}
			if got > c.bound {
				t.Errorf("%d bytes of input made it allocate %d, bound %d", len(c.data), got, c.bound)
			}
		})
	}
}

// TestWriteIsStreamed writes 20 MB and counts what is allocated for it.
func TestWriteIsStreamed(t *testing.T) {
	m := fsm.New()
	m.Apply(1, fsm.Batch{Commands: []fsm.Command{
		{Op: fsm.OpInit, ClusterID: "c"},
		{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "q"},
	}})
	payload := strings.Repeat("x", 10_000)
	for i := range uint64(2_000) {
		m.Apply(2+i, fsm.Batch{Commands: []fsm.Command{{Op: fsm.OpSend, Spool: fsm.DefaultSpool, Queue: "q", Payload: payload}}})
	}
	img := m.Image()
	var largest largestWrite
	if got := allocated(func() {
		if err := Write(&largest, img); err != nil {
			t.Error(err)
		}
	}); got > 2<<20 {
		t.Errorf("writing allocated %d bytes", got)
	}
	if largest.total < 20_000_000 || largest.bytes > BlockBytes+frameBytes {
		t.Errorf("wrote %d bytes, at most %d at once", largest.total, largest.bytes)
	}
}

type largestWrite struct{ bytes, total int }

func (w *largestWrite) Write(b []byte) (int, error) {
	w.bytes = max(w.bytes, len(b))
	w.total += len(b)
	return len(b), nil
}

// FuzzRead expects no panic, and of what Read accepts that it can be written
// and read again.
func FuzzRead(f *testing.F) {
	empty, n := emptyForge()
	f.Add(empty.block(blockEnd, appendEnd(nil, n, Version)).data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		checkWritable(t, m)
	})
}

// FuzzRecords fuzzes behind the checksums, which random bytes seldom pass. What
// is decoded has no other encoding.
func FuzzRecords(f *testing.F) {
	message := fsm.MessageRecord{Number: 1, State: fsm.StatePending, DueMs: 5, Moves: 1, Retries: 2, LeaseMaxRetries: 3, Payload: "p"}
	f.Add(appendClaim(appendMessage(appendQueue(nil, queue), message), fsm.ClaimRecord{Message: 1}))
	f.Add(appendSpool(nil, fsm.SpoolRecord{Name: "z", Suspended: true, Caps: fsm.Caps{MaxMessages: 300}}))
	open := fsm.ChannelClaimRecord{Key: fsm.Fingerprint{1}, Owner: fsm.Owner{2}, LapsesAtMs: 5, WindowEndsMs: 7}
	f.Add(appendConnector(appendChannelClaim(appendChannel(nil, channel), open), channel.DocumentRecord))
	f.Fuzz(func(t *testing.T, records []byte) {
		forged, n := emptyForge()
		forged.block(blockRecords, records).block(blockEnd, appendEnd(nil, n, Version))
		if m, err := Read(bytes.NewReader(forged.data)); err == nil {
			checkWritable(t, m)
		}
		if again, ok := recode(records); ok && !bytes.Equal(again, records) {
			t.Fatalf("%x decodes, and encodes as %x", records, again)
		}
	})
}

func recode(records []byte) (again []byte, ok bool) {
	d := decoder{b: records}
	for len(d.b) > 0 {
		switch d.byte() {
		case recordSpool:
			again = appendSpool(again, d.spool())
		case recordQueue:
			again = appendQueue(again, d.queue())
		case recordMessage:
			again = appendMessage(again, d.message())
		case recordClaim:
			again = appendClaim(again, d.claim())
		case recordChannel:
			again = appendChannel(again, d.channel())
		case recordChannelClaim:
			again = appendChannelClaim(again, d.channelClaim())
		case recordConnector:
			again = appendConnector(again, d.document())
		default:
			return nil, false
		}
	}
	return again, d.err == nil
}

// FuzzEnds does the same for the header and the end.
func FuzzEnds(f *testing.F) {
	f.Add(emptyHeader(), appendEnd(nil, counts{1, 2, 3, 4, 5, 6, 7}, Version))
	f.Fuzz(func(t *testing.T, header, end []byte) {
		d := decoder{b: header}
		if h := d.header(Version); d.end() == nil && !bytes.Equal(appendHeader(nil, h, Version), header) {
			t.Fatalf("header %x decodes, and encodes as %x", header, appendHeader(nil, h, Version))
		}
		d = decoder{b: end}
		if n := d.counts(Version); d.end() == nil && !bytes.Equal(appendEnd(nil, n, Version), end) {
			t.Fatalf("end %x decodes, and encodes as %x", end, appendEnd(nil, n, Version))
		}
	})
}

func checkWritable(t *testing.T, m *fsm.Machine) {
	var buf bytes.Buffer
	if err := Write(&buf, m.Image()); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&buf)
	if err != nil {
		t.Fatalf("cannot read what was read and written: %v", err)
	}
	if again.Hash() != m.Hash() {
		t.Fatalf("hash %x, was %x", again.Hash(), m.Hash())
	}
}
