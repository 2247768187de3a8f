package event

import (
	"os"
	"testing"
)

func BenchmarkAppend(b *testing.B) {
	for name, port := range map[string]func(i int) int{
		"different": func(i int) int { return i + 1 },
		"same":      func(int) int { return 1 },
	} {
		b.Run(name, func(b *testing.B) {
			f, err := os.Create(b.TempDir() + "/events.jsonl")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			j, err := Create(f, testMeta(), Options{MaxBytes: 1 << 40})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := range b.N {
				if err := j.Append(netEvent(Denied, port(i))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
