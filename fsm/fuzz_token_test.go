package fsm_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
	"github.com/spoolraft/spoolraft/fsm/model"
)

// FuzzOpen expects only sealed strings to open.
func FuzzOpen(f *testing.F) {
	sealer := fsm.NewSealer(aSecret())
	f.Add(uint8(fsm.Lease), sealer.Seal(fsm.Token{Sort: fsm.Lease, Queue: 1, Message: 1, Moves: 1}))
	f.Add(uint8(fsm.Handle), sealer.Seal(fsm.Token{Sort: fsm.Handle, Queue: 1 << 63, Message: 300, Moves: 1 << 31}))
	f.Add(uint8(fsm.Handle), fsm.NewSealer(fsm.Secret{}).Seal(fsm.Token{Sort: fsm.Handle, Queue: 1, Message: 1}))
	f.Add(uint8(0), "")
	f.Fuzz(func(t *testing.T, sort uint8, text string) {
		token, err := sealer.Open(fsm.TokenSort(sort), text)
		switch {
		case err == nil && (sealer.Seal(token) != text || token.Sort != fsm.TokenSort(sort)):
			t.Fatalf("%q opens as %s, which is sealed as %q", text, show(token), sealer.Seal(token))
		case err != nil && (!errors.Is(err, fsm.ErrInvalidToken) || token != fsm.Token{}):
			t.Fatalf("%q: %s, %v", text, show(token), err)
		}
	})
}

// FuzzSeal expects a sealed token to open as it was, and no string that is one
// bit away to open at all.
func FuzzSeal(f *testing.F) {
	f.Add(true, uint64(1), uint64(1), uint32(0), []byte("secret"))
	f.Add(false, uint64(1)<<63, uint64(1<<14), uint32(1)<<31, []byte{})
	f.Fuzz(func(t *testing.T, lease bool, queue, message uint64, moves uint32, secret []byte) {
		var s fsm.Secret
		copy(s[:], secret)
		sealer := fsm.NewSealer(s)
		token := fsm.Token{Sort: fsm.Handle, Queue: queue, Message: message, Moves: moves}
		other := fsm.Lease
		if lease {
			token.Sort, other = fsm.Lease, fsm.Handle
		}
		text := sealer.Seal(token)
		if got, err := sealer.Open(token.Sort, text); err != nil || got != token {
			t.Fatalf("%s opens as %s, %v", show(token), show(got), err)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(text) {
			t.Fatalf("%q is not safe in a URL", text)
		}
		refused := func(sealer fsm.Sealer, sort fsm.TokenSort, text string) {
			if _, err := sealer.Open(sort, text); !errors.Is(err, fsm.ErrInvalidToken) {
				t.Fatalf("%q, altered from %q, opens: %v", text, sealer.Seal(token), err)
			}
		}
		refused(sealer, other, text)
		s[5] ^= 1
		refused(fsm.NewSealer(s), token.Sort, text)
		for i := range text {
			refused(sealer, token.Sort, text[:i])
			for bit := range 8 {
				altered := []byte(text)
				altered[i] ^= 1 << bit
				refused(sealer, token.Sort, string(altered))
				refused(sealer, other, string(altered))
			}
		}
		refused(sealer, token.Sort, text+"A")
		refused(sealer, token.Sort, text+"=")
	})
}

func FuzzValidName(f *testing.F) {
	for _, name := range []string{"", "a", "A-z_0:9", "no space", "é", "a\n", "a/b", string(make([]byte, 129))} {
		f.Add(name)
	}
	valid := regexp.MustCompile(`\A[A-Za-z0-9_:-]{1,128}\z`)
	f.Fuzz(func(t *testing.T, name string) {
		if fsm.ValidName(name) != valid.MatchString(name) {
			t.Fatalf("ValidName(%q) is %v", name, fsm.ValidName(name))
		}
	})
}

// FuzzPatch expects the machine to take the settings that the model takes, and
// to hold them as given.
func FuzzPatch(f *testing.F) {
	f.Add(uint8(31), uint32(30), uint32(5), uint32(0), uint32(345_600), uint64(1), uint64(1))
	f.Add(uint8(31), uint32(43_201), uint32(1_001), uint32(604_801), uint32(59), uint64(0), uint64(1))
	f.Add(uint8(32), uint32(0), uint32(0), uint32(0), uint32(1_209_601), uint64(3_600_000_001), uint64(1_000_001))
	f.Fuzz(func(t *testing.T, set uint8, lease, retries, window, retention uint32, interval, burst uint64) {
		p := fsm.Patch{Set: fsm.Field(set), To: fsm.Settings{
			LeaseTimeoutSeconds: lease, MaxRetries: retries, DedupWindowSeconds: window, RetentionSeconds: retention,
			RecvRateLimit: fsm.RateLimit{IntervalMicros: interval, Burst: burst},
		}}
		b := fsm.Batch{Commands: []fsm.Command{
			{Op: fsm.OpInit, ClusterID: "c"},
			{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "created", Patch: p},
			{Op: fsm.OpCreateQueue, Spool: fsm.DefaultSpool, Queue: "updated"},
			{Op: fsm.OpUpdateQueue, Spool: fsm.DefaultSpool, Queue: "updated", Patch: p},
		}}
		got, want := fsm.New().Apply(1, b), model.New().Apply(b)
		for i := range want {
			if got[i].Code != want[i].Code {
				t.Fatalf("%s: code %d, want %d", show(b.Commands[i]), got[i].Code, want[i].Code)
			}
			if want[i].Queue != nil && got[i].Queue.Settings != want[i].Queue.Settings {
				t.Fatalf("%s: settings %s", show(b.Commands[i]), show(got[i].Queue.Settings))
			}
		}
		if valid := want[1].Code == fsm.CodeOK; p.Valid() != valid {
			t.Fatalf("%s: Valid is %v", show(p), p.Valid())
		}
	})
}
