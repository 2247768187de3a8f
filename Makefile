# Every target sets up what it needs itself: see scripts/setup.sh.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w$(if $(VERSION), -X github.com/forkcell/forkcell/internal/front/local.version=$(VERSION))
PREFIX  ?= /usr/local
DATADIR := $(DESTDIR)$(PREFIX)/share
TOOL    := $(GO) tool -modfile=tools/go.mod
# As `make build` compiles, so that the tests compile nothing a second time.
TESTENV := CGO_ENABLED=0 GOFLAGS=-trimpath
# gVisor takes minutes to compile: all that use it share what one has compiled.
GVISORENV := CGO_ENABLED=0 GOFLAGS=-trimpath
INGVISOR  := cd gvisor && $(GVISORENV) $(GO)

# Go's own installation directory, for shells that do not have it in PATH.
export PATH := $(PATH):/usr/local/go/bin

.DEFAULT_GOAL := help
.PHONY: help setup build install test sdk lint vuln bench demo fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install and fetch what the tests and the bench can use (as root on Debian)
	@for t in build test sdk agents browser bench lint; do scripts/setup.sh $$t; done
	@scripts/conformance/fetch.sh
	@scripts/sdk.sh fetch
	@scripts/agents.sh fetch

build: ## build bin/forkcell and, for serve, bin/forkcell-server: static binaries
	@scripts/setup.sh build
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -tags lean -o bin/forkcell ./cmd/forkcell
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o internal/sandbox/driver/firstprogram/forkcell-first ./cmd/forkcell-first
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -tags smallfirst -o bin/forkcell-server ./cmd/forkcell

install: build ## install what was built, manual pages and completions (PREFIX, DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin $(DATADIR)/man/man1 $(DATADIR)/bash-completion/completions \
		$(DATADIR)/zsh/site-functions $(DATADIR)/fish/vendor_completions.d
	install -m 755 bin/forkcell bin/forkcell-server $(DESTDIR)$(PREFIX)/bin
	if [ -e bin/forkcell-gvisor ]; then install -m 755 bin/forkcell-gvisor $(DESTDIR)$(PREFIX)/bin; fi
	bin/forkcell man $(DATADIR)/man/man1
	bin/forkcell completion bash >$(DATADIR)/bash-completion/completions/forkcell
	bin/forkcell completion zsh >$(DATADIR)/zsh/site-functions/_forkcell
	bin/forkcell completion fish >$(DATADIR)/fish/vendor_completions.d/forkcell.fish

test: ## run every test: unit, script, property, race, fuzz (short), crash; as root also as an ordinary user
	@scripts/setup.sh test
	@scripts/conformance/fetch.sh
	$(TESTENV) $(GO) run -buildvcs=false ./scripts/runtests $(TESTFLAGS)

.PHONY: quick
quick: ## check what changed since a commit: format, and lint and tests of the packages (BASE=HEAD)
	@$(TESTENV) scripts/quick.sh

.PHONY: lanes
lanes: ## run every lane of CI, and write those that pass to .ci/passed
	$(TESTENV) $(GO) run -buildvcs=false ./scripts/lanes -all -record

sdk: build gvisor ## test the packages for Python and TypeScript, and the examples, beside a real daemon
	@scripts/setup.sh sdk
	@scripts/sdk.sh fetch
	@scripts/conformance/fetch.sh
	scripts/sdk.sh test
	$(GO) test ./cmd/forkcell ./internal/front/daemon ./internal/front/mcp -run 'TestInspector|TestConformance'

.PHONY: gvisor
gvisor: ## build bin/forkcell-gvisor, the runtime of the gVisor tier, from the module in gvisor/
	@scripts/setup.sh build
	$(INGVISOR) build -buildvcs=false -ldflags '-s -w' -o ../bin/forkcell-gvisor .

.PHONY: test-gvisor
test-gvisor: gvisor ## test the runtime of the gVisor tier and its driver, as root also as an ordinary user
	$(INGVISOR) vet ./...
	$(INGVISOR) test -timeout 10m ./...
	FORKCELL_TEST_GVISOR=$(CURDIR)/bin/forkcell-gvisor $(GO) test -timeout 15m ./internal/sandbox/driver/gvisor/...
	FORKCELL_TEST_GVISOR=$(CURDIR)/bin/forkcell-gvisor $(GO) test -tags failpoints -timeout 15m ./cmd/forkcell -run '^TestGvisor'
	FORKCELL_TEST_GVISOR=$(CURDIR)/bin/forkcell-gvisor $(GO) test -timeout 15m ./internal/front/daemon -run '^TestGvisor'
	GO=$(GO) scripts/gvisor-user.sh

.PHONY: test-moments
test-moments: gvisor ## test that files and memory of a thousand branches are of one moment, on each runtime (MOMENTS=1000)
	FORKCELL_TEST_MOMENTS=$(or $(MOMENTS),1000) $(GO) test -timeout 30m ./internal/front/daemon -run '^TestOneMoment$$'
	FORKCELL_TEST_MOMENTS=$(or $(MOMENTS),1000) FORKCELL_TEST_GVISOR=$(CURDIR)/bin/forkcell-gvisor $(GO) test -timeout 90m ./internal/sandbox/driver/gvisor -run '^TestOneMoment$$'

.PHONY: test-browser
test-browser: ## test the review pages in a real browser, Debian's Chromium; screenshots in bin/screenshots
	@scripts/setup.sh browser
	FORKCELL_SCREENSHOTS=$(CURDIR)/bin/screenshots $(GO) test -tags browser -timeout 15m ./internal/front/daemon -run '^TestBrowser'

.PHONY: test-agents
test-agents: build ## test sessions of the real agent programs, beside a stand-in of their services
	@scripts/setup.sh agents
	@scripts/agents.sh fetch
	scripts/agents.sh test

.PHONY: fuzz-api
fuzz-api: build ## check the OpenAPI document, and fuzz a real daemon with it (FUZZSECONDS=120)
	@scripts/setup.sh sdk
	@scripts/sdk.sh fetch
	scripts/fuzz-api.sh $(FUZZSECONDS)

.PHONY: sdk-generate
sdk-generate: # write what is generated in sdk/
	@scripts/setup.sh sdk
	@scripts/sdk.sh fetch
	scripts/sdk.sh generate

lint: ## check format, layers and habits with pinned tools
	@scripts/setup.sh lint
	@out=$$($(TOOL) gofumpt -l .) && if [ -n "$$out" ]; then echo "not formatted by gofumpt:"; echo "$$out"; exit 1; fi
	$(TOOL) golangci-lint run ./...
	@tool=$$($(TOOL) -n golangci-lint) && cd gvisor && $(GVISORENV) "$$tool" run ./...

vuln: ## look the dependencies up in Go's vulnerability database (needs the network)
	@scripts/setup.sh lint
	$(TOOL) govulncheck ./...
	@tool=$$($(TOOL) -n govulncheck) && cd gvisor && $(GVISORENV) "$$tool" ./...

bench: build ## measure against cp, rsync and bubblewrap, side by side
	@scripts/setup.sh bench
	$(GO) run -buildvcs=false ./bench -forkcell bin/forkcell $(BENCHFLAGS)

demo: build ## tell the whole story on a small example
	@scripts/demo.sh bin/forkcell

fuzz: ## fuzz every target for longer (FUZZTIME=2m)
	@scripts/setup.sh test
	$(GO) run -buildvcs=false ./scripts/runtests -only fuzz -guided -fuzztime $(or $(FUZZTIME),2m)

clean: ## remove what was built
	rm -rf bin internal/sandbox/driver/firstprogram/forkcell-first

.PHONY: compat
compat: ## run the core tests on Linux 6.1, Debian's, in an emulator
	@scripts/setup.sh compat
	$(GO) run -buildvcs=false ./scripts/compat $(COMPATFLAGS)
