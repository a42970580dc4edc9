package examples

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const orderCount = 40

var orderNumber = regexp.MustCompile(`order-\d+`)

// TestProducers: under the same faults one producer stores each order once, and
// the other loses some and stores some twice.
func TestProducers(t *testing.T) {
	w := newWorld(t)
	var orders strings.Builder
	for n := range orderCount {
		fmt.Fprintf(&orders, "order-%d a lamp\n", n)
	}
	for seed := range 3 {
		for _, producer := range []string{"producer-right", "producer-wrong"} {
			queue := producer + strconv.Itoa(seed)
			t.Run(queue, func(t *testing.T) {
				t.Parallel()
				w := w.in(t)
				w.mustRun("", "spoolraft", "queue", "create", queue, "--dedup-window", "1h")
				w.addFaults(queue, strconv.Itoa(seed))
				if _, err := w.run(orders.String(), producer, queue); err != nil {
					t.Errorf("it says that it failed: %v", err)
				}
				lost, doubled := w.count(queue)
				t.Logf("%d orders lost, %d stored more than once", lost, doubled)
				if right := producer == "producer-right"; (lost == 0) != right || (doubled == 0) != right {
					t.Errorf("%d orders lost, %d stored more than once, under\n%s", lost, doubled, w.mustRun("", "spoolraft", "faults", "list"))
				}
			})
		}
	}
}

// addFaults adds one rule for each way in which a send can fail. Each strikes
// soon and often, and those that a producer answers with a pause not for long.
func (w *world) addFaults(queue, seed string) {
	w.t.Helper()
	for _, rule := range []string{
		"drop --probability 0.2",
		"reset --probability 0.1",
		"500 --probability 0.1 --count 3",
		"500 --when before --probability 0.1 --count 3",
		"502 --probability 0.1 --count 3",
		"503 --probability 0.2 --count 2",
		"504 --when before --probability 0.1 --count 3",
		"delay --delay 5ms --probability 0.2",
	} {
		args := append([]string{"faults", "add"}, strings.Fields(rule)...)
		w.mustRun("", "spoolraft", append(args, "--operation", "send", "--queue", queue, "--seed", seed)...)
	}
}

// count receives every message and holds them against the orders.
func (w *world) count(queue string) (lost, doubled int) {
	w.t.Helper()
	out := w.mustRun("", "spoolraft", "recv", queue, "--ack", "--count", "1000", "--wait", "0")
	times := map[string]int{}
	for _, order := range orderNumber.FindAllString(out, -1) {
		times[order]++
	}
	for n := range orderCount {
		switch times[fmt.Sprintf("order-%d", n)] {
		case 0:
			lost++
		case 1:
		default:
			doubled++
		}
	}
	return lost, doubled
}
