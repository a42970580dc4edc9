// Command producer-right sends each line of its standard input to a queue, as
// one order, and stores each once, whatever fails in between:
//
//	producer-right QUEUE < orders.txt
//
// A line is the number of an order and whatever else belongs to it. What it
// takes is in try, and in the key that send is given.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// attemptTimeout bounds one attempt, so that a server that hangs does not
	// use up the time of all of them.
	attemptTimeout = 5 * time.Second
	// orderTimeout bounds all attempts of an order. The queue's window is longer.
	orderTimeout = 10 * time.Minute

	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: producer-right QUEUE < ORDERS, with SPOOLER_API and SPOOLER_KEY set")
	}
	url := os.Getenv("SPOOLER_API") + "/spools/default/queues/" + os.Args[1] + "/send"
	failed := false
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		// The key is made from what the order is, before the first attempt. It is
		// the same in every attempt, and if this program is run again.
		key, _, _ := strings.Cut(orders.Text(), " ")
		if err := send(url, key, orders.Text()); err != nil {
			log.Printf("%s: %v", key, err)
			failed = true
		}
	}
	if err := orders.Err(); err != nil {
		log.Fatal(err)
	}
	if failed {
		log.Fatal("some orders are not known to be stored; mend what is wrong and run this again, none will be stored twice")
	}
}

// send repeats an order until it is stored, or will never be.
func send(url, key, order string) error {
	ctx, cancel := context.WithTimeout(context.Background(), orderTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		again, wait, err := try(ctx, url, key, order)
		if err == nil || !again {
			return err
		}
		// Not all at the same moment: a part of the pause is random.
		wait = max(wait, pause/2+rand.N(pause/2))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("gave up, the outcome is unknown: %w", err)
		}
	}
}

// try makes one attempt. It says whether another one can end better, and how
// long the server wants to be left alone before.
func try(ctx context.Context, url, key, order string) (again bool, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(order))
	if err != nil {
		return false, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("SPOOLER_KEY"))
	req.Header.Set("Spooler-Dedup-String", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return true, 0, err // no answer: it may be stored
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // it explains, the status decides
	var problem struct{ Kind, Message string }
	_ = json.Unmarshal(body, &problem) // a proxy answers something else than JSON
	err = fmt.Errorf("answered %s: %s", res.Status, problem.Message)
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	wait = time.Duration(seconds) * time.Second

	switch {
	case res.StatusCode == http.StatusCreated, res.StatusCode == http.StatusOK:
		return false, 0, nil // stored, now or by an earlier attempt
	case res.StatusCode == http.StatusInsufficientStorage:
		return false, 0, err // refused
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, problem.Kind == "dedup_in_flight":
		return true, wait, err
	default:
		return false, 0, err // refused: the same again would be refused again
	}
}
