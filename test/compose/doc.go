// Package compose tests the image and the compose file as a user runs them:
// three containers, through kills, pauses and cuts.
//
// It needs Docker with Compose, so it runs only with SPOOLRAFT_TEST_COMPOSE=1,
// as `make test` does. It uses a project, an image tag, volumes and ports of
// its own, and removes them all.
package compose
