package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

// BenchmarkKeyedSend sends 256 bytes over all nodes of a cluster of three, in a
// closed loop.
func BenchmarkKeyedSend(b *testing.B) {
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			c := newCluster(b, 3, func(_ string, cfg *Config) { cfg.tuning.segment = defaultTuning().segment })
			defer c.stopAll()
			makeQueue(b, c.nodes["a"], "q")
			nodes := c.others()
			payload := string(make([]byte, 256))
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for w := range clients {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						cmd := keyed("q", key(int(i)), payload)
						if r, err := nodes[w%3].Do(b.Context(), &cmd); err != nil || r.Code != fsm.CodeOK {
							b.Errorf("send: %+v, %v", r, err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
