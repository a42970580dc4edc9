// Package httpapi is the public HTTP contract: it turns requests into commands
// and queries for a [Broker], and their outcomes into answers.
//
// These invariants hold:
//
//   - A 2xx is written only after the Broker has said that the change is
//     decided. A 4xx, 503 or 507 is written only where the change provably did
//     not happen. Everything else is 500 operation_unconfirmed.
//   - Every call under /v1 passes the same checks in the same order: key and
//     scope, names, spool, headers, query, length, body. Only then does the
//     Broker see it.
//   - Every refusal is a row of the table in errors.go, and every route is a
//     row of the table in routes.go.
//   - No key, token, payload or dedup key reaches a log line or a metric.
//   - Labels of metrics come from closed sets.
//
// DESIGN.md says why it is so and what was rejected.
package httpapi
