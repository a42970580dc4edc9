package fsm

// successionGap is how many numbers a succession leaves out: far more than any
// cluster has given that a node which was left behind does not know of.
const successionGap = 1_000_000_000

// Succeed makes the machine that of a new cluster, which goes on from what is left
// of another. The other may have gone further in ways that nobody knows any more,
// and what it gave out must not come to mean something else here: tokens are void
// under the new secret, leases end uncounted since nobody can settle them, uids of
// queues are others, and the next numbers of queues, messages and versions leave a
// gap.
func (m *Machine) Succeed(clusterID string, secret Secret) {
	m.clusterID, m.secret = clusterID, secret
	m.nextQueue += successionGap
	if m.revision > 0 { // 0 is what a snapshot says that older nodes can read
		m.revision += successionGap
	}
	for _, number := range m.queues.Keys() {
		q, _ := m.queues.Get(number)
		sp, _ := m.spools.Get(q.spool)
		sp, q = m.ownSpool(sp), m.own(q)
		q.uid = m.newUID(number)
		q.nextMessage += successionGap
		for _, leased := range q.messages.Keys() {
			if x, _ := q.messages.Get(leased); x.state == StatePending {
				q.replace(leased, x, x.returned(m.nowMs))
			}
		}
		m.done(sp, q)
	}
}
