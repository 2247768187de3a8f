package receipt

import "testing"

// A run signs once, a look at a log verifies many: both are on paths that people
// wait for.

func BenchmarkSign(b *testing.B) {
	l, r := newTestLog(b), testRun(1)
	l.place(r, "cell_1", "demo")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.signer.Sign(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	raw, keys := newTestLog(b).add(testRun(1)), trusted(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify(raw, keys); err != nil {
			b.Fatal(err)
		}
	}
}
