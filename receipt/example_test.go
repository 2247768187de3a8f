package receipt_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/forkcell/forkcell/receipt"
)

// Check a bundle that came from elsewhere with a public key that was obtained
// another way.
func Example() {
	text, err := os.ReadFile("testdata/key.pem")
	if err != nil {
		log.Fatal(err)
	}
	pub, err := receipt.ParsePublic(text)
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Open("testdata/bundle.json")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()

	report, err := receipt.VerifyBundle(file, receipt.NewKeySet(pub))
	if errors.Is(err, receipt.ErrUntrusted) {
		log.Fatal("signed by somebody else: ", err)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("outcome:", report.Run.Outcome)
	fmt.Println("decision:", report.Present.Result)
	for _, c := range report.Checks {
		if c.Name == "logs.stdout" || c.Name == "logs.stderr" {
			fmt.Println(c.Name, "is", c.State)
		}
	}
	// Output:
	// outcome: failed
	// decision: accepted
	// logs.stdout is verified
	// logs.stderr is not included
}
