// Command producer-wrong does what producer-right does, with the two mistakes
// that are found most often. It looks fine, it has retries and keys, and it
// works until something fails:
//
//	producer-wrong QUEUE < orders.txt
package main

import (
	"bufio"
	"crypto/rand"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: producer-wrong QUEUE < ORDERS, with SPOOLER_API and SPOOLER_KEY set")
	}
	url := os.Getenv("SPOOLER_API") + "/spools/default/queues/" + os.Args[1] + "/send"
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		if err := send(url, orders.Text()); err != nil {
			log.Fatal(err)
		}
	}
}

func send(url, order string) error {
	var last error
	for range 10 {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(order))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+os.Getenv("SPOOLER_KEY"))
		// The first mistake: the key belongs to the attempt, not to the order.
		// Where only the answer was lost, the next attempt stores it again.
		req.Header.Set("Spooler-Dedup-String", rand.Text())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err
			time.Sleep(50 * time.Millisecond)
			continue
		}
		// The second mistake: an answer is taken for a success. Where it is a 503,
		// the order is lost.
		return res.Body.Close()
	}
	return last
}
