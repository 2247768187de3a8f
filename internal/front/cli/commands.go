package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// entry is a top-level command. It is built only when it may be needed, because
// building every flag of every command would slow down every start.
type entry struct {
	name  string
	group string
	make  func(*frame) *cobra.Command
}

// entries lists the top-level commands.
func entries() []entry {
	return []entry{
		{"init", groupTransaction, newInit},
		{"refresh", groupTransaction, newRefresh},
		{"run", groupTransaction, newRun},
		{"try", groupTransaction, newTry},
		{"checkpoint", groupTransaction, newCheckpoint},
		{"restore", groupTransaction, newRestore},
		{"fork", groupTransaction, newFork},
		{"race", groupTransaction, newRace},
		{"accept", groupTransaction, newAccept},
		{"reject", groupTransaction, newReject},
		{"apply", groupTransaction, newApply},
		{"publish", groupTransaction, newPublish},
		{"diff", groupTransaction, newDiff},
		{"export", groupTransaction, newExport},

		{"agent", groupAgents, newAgent},
		{"session", groupAgents, newAgentSession},

		{"start", groupLive, newStart},
		{"stop", groupLive, newStop},
		{"pause", groupLive, newPause},
		{"resume", groupLive, newResume},
		{"warm", groupLive, newWarm},
		{"branch", groupLive, newBranch},
		{"eval", groupLive, newEval},
		{"exec", groupLive, newExec},
		{"shell", groupLive, newShell},
		{"ps", groupLive, newProcesses},
		{"cp", groupLive, newCopy},
		{"port-forward", groupLive, newPortForward},

		{"receipt", groupEvidence, newReceipt},
		{"decisions", groupEvidence, newDecisions},
		{"events", groupEvidence, newEvents},
		{"policy", groupEvidence, newPolicy},
		{"key", groupEvidence, newKey},
		{"verify", groupEvidence, newVerify},
		{"recover", groupEvidence, newRecover},

		{"ls", groupCells, newList},
		{"status", groupCells, newStatus},
		{"df", groupCells, newDisk},
		{"usage", groupCells, newUsage},
		{"log", groupCells, newLog},
		{"logs", groupCells, newLogs},
		{"graph", groupCells, newGraph},
		{"set", groupCells, newSet},
		{"rename", groupCells, newRename},
		{"rm", groupCells, newRemove},
		{"expire", groupCells, newExpire},
		{"cache", groupCells, newCache},
		{"gc", groupCells, newGC},

		{"ui", groupEvidence, newUI},

		{"serve", groupSetup, newServe},
		{"mcp", groupSetup, newMCP},
		{"doctor", groupSetup, newDoctor},
		{"setup", groupSetup, newSetup},
		{"token", groupSetup, newToken},
		{"auth", groupSetup, newAuth},
		{"why", groupSetup, newWhy},
		{"inspect", groupSetup, newInspect},
		{"support-bundle", groupSetup, newSupportBundle},
		{"version", groupSetup, newVersion},
		{"completion", groupSetup, newCompletion},
		{"man", groupSetup, newMan},
	}
}

// neededCommands returns the commands that a command line may mean: those whose name is its
// first word, or the first after the global flags. If there is none, it returns
// all, for help, completion and suggestions.
func neededCommands(all []entry, args []string) []entry {
	word := commandAt(args)
	if word < 0 {
		return all
	}
	at := slices.IndexFunc(all, func(e entry) bool { return e.name == args[word] && e.name != "completion" })
	if at < 0 {
		return all
	}
	return all[at : at+1]
}

// commandAt returns the index of a command line's first word that is neither a global
// flag nor the value of one, or -1.
func commandAt(args []string) int {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		switch word := args[i]; {
		case word == "--home", word == "--url", word == "--token-file":
			i++
		case len(word) > 0 && word[0] == '-':
		default:
			return i
		}
	}
	return -1
}
