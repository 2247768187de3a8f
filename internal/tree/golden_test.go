package tree

import (
	"flag"
	"os"
	"testing"
)

// The roots of three trees in version 1 of the identity.
const (
	goldenEmptyRoot = "55d78b2a978496e5a3a886eb163393fa16408df4ae0626c57fa5135688b47536"
	goldenEmptyMeta = "2f20879e8c7070480a7d727f1acc3036833d59ee7021ad0694681041aea4341a"
	goldenSmallRoot = "fd89938ce22f74d561bdc4e050071d722e516f83796af5169b6215f699656be0"
	goldenSmallMeta = "260d4efbc617a094b07938febe4db61799cb357a57a50ac6f4af1bf5de2ccf94"
	goldenWideRoot  = "fb4477e06ff3ec7fac71db4ba4909d2410a2d73b8e05cd80d7517cb09c4d4e61"
	goldenWideMeta  = "1efb06062f0e4b72d7bb8c52efc44b59e36463e26a2a00f840ce2b0c65bacd1d"
)

var update = flag.Bool("update", false, "write testdata again; only before a version is released")

// TestStoredPack reads a pack that an earlier program wrote.
func TestStoredPack(t *testing.T) {
	t.Parallel()
	const name = "testdata/v1.pack"
	if *update {
		s := store{}
		w := s.writer(t, "one")
		s.finish(t, w, small().build(t, w), smallLinks())
		must(t, 0, os.WriteFile(name, s["one"].b, 0o644))
	}
	b, err := os.ReadFile(name)
	m, err := Load(onePack(must(t, b, err)), "one")
	tr, _ := must(t, m, err).Area("workspace")
	check(t, tr, small(), smallLinks())
}
