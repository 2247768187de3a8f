package mcp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// runTools returns the tools that run commands.
func runTools() []tool {
	return []tool{
		define(tool{
			op: op.Run, name: "run", title: "Run a command",
			about: "Run one command in a cell as a transaction, and wait for its end. The state before is kept: restore undoes the run. The result is pending until it is accepted. Output beyond 16 KiB of a stream is left out in the middle; the resource forkcell://runs/{run}/logs/{stream} has all of it.",
		}, run),
		define(tool{
			op: op.Start, name: "start", title: "Make a cell live",
			about: "Make a cell live: its processes stay until stop. Then exec runs commands in it, and write_file writes files.",
		}, start),
		define(tool{
			op: op.Stop, name: "stop", title: "End a live cell",
			about: "End a live cell. Its changes become one run with a receipt, which is pending until it is accepted.",
		}, stop),
		pass(op.Pause, tool{
			name: "pause", title: "Pause a live cell",
			about: "Stop the processes of a live cell until resume. With the runtime gvisor they are written to the disk with their memory. With fs_only they end, and the files are kept.",
		}, describePause),
		define(tool{
			op: op.Resume, name: "resume", title: "Continue a paused cell",
			about: "Continue the processes of a paused cell. With fs_only a cell that is paused on disk is started without them.",
		}, resume),
		define(tool{
			op: op.Exec, name: "exec", title: "Execute a command in a live cell",
			about: "Execute one command in a live cell, and wait for its end.",
		}, execute),
	}
}

type runArgs struct {
	InCell
	api.RunBody
}

func run(ctx context.Context, c *call, in runArgs) (*answer, error) {
	doc := api.RunAnswer{}
	out, err := c.command(ctx, request{method: http.MethodPost, path: path("cells", in.Cell, "runs"), body: in.RunBody}, &doc.RunResult)
	if err != nil {
		return nil, err
	}
	doc.Output = out
	return &answer{doc, describeRun(doc.RunResult) + describeOutput(out)}, nil
}

// describeRun returns the end of a run for the model.
func describeRun(r api.RunResult) string {
	text := fmt.Sprintf("%s (exit %d), %s, %s, run %s, receipt %s", r.Outcome, r.ExitCode, r.Decision, api.Counted(r.ChangedFiles, "changed file"), r.RunID, r.ReceiptID)
	if len(r.Elsewhere) > 0 {
		text += "\noutside the workspace: " + api.ElsewhereText(r.Elsewhere)
	}
	if r.Error != "" {
		text += "\n" + r.Error
	}
	if r.Denied.Attempts > 0 {
		text += fmt.Sprintf("\n%s denied by the policy; policy_suggest shows what would allow them", api.Counted(int(r.Denied.Attempts), "connection"))
	}
	return text
}

// command sends a request for a command, follows it, and returns its output.
func (c *call) command(ctx context.Context, r request, result any) (api.Output, error) {
	r.accept = eventStreamType
	resp, err := c.send(ctx, r)
	if err != nil {
		return api.Output{}, err
	}
	defer resp.Body.Close()
	var out output
	err = followCommand(resp.Body, &out, result, func() {
		c.progress.report(ctx, fmt.Sprintf("running, %d bytes of output", out.size()))
	})
	return out.document(), err
}

type startArgs struct {
	InCell
	api.StartBody
}

func start(ctx context.Context, c *call, in startArgs) (*answer, error) {
	doc, raw, err := fetch[api.StartResult](ctx, c, request{method: http.MethodPost, path: path("cells", in.Cell, "start"), body: in.StartBody})
	if err != nil {
		return nil, err
	}
	return &answer{raw, fmt.Sprintf("cell %s is live, run %s", doc.Cell, doc.RunID)}, nil
}

type resumeArgs struct {
	InCell
	api.ResumeBody
}

func resume(ctx context.Context, c *call, in resumeArgs) (*answer, error) {
	doc, raw, err := fetch[api.PauseResult](ctx, c, post(in.Cell, "resume", in.ResumeBody))
	if err != nil {
		return nil, err
	}
	return &answer{raw, describePause(doc)}, nil
}

func describePause(r *api.PauseResult) string {
	was := ""
	if !r.Changed {
		was = " already"
	}
	return fmt.Sprintf("cell %s is%s %s", r.Cell, was, r.State)
}

type stopArgs struct {
	InCell
	api.StopBody
}

func stop(ctx context.Context, c *call, in stopArgs) (*answer, error) {
	doc, raw, err := fetch[api.RunResult](ctx, c, request{method: http.MethodPost, path: path("cells", in.Cell, "stop"), body: in.StopBody})
	if err != nil {
		return nil, err
	}
	return &answer{raw, describeRun(*doc)}, nil
}

type execArgs struct {
	InCell
	api.ExecBody
}

func execute(ctx context.Context, c *call, in execArgs) (*answer, error) {
	doc := api.ExecAnswer{}
	out, err := c.command(ctx, request{method: http.MethodPost, path: path("cells", in.Cell, "exec"), body: in.ExecBody}, &doc.ExecEnd)
	if err != nil {
		return nil, err
	}
	doc.Output = out
	return &answer{doc, fmt.Sprintf("exit %d%s", doc.ExitCode, describeOutput(out))}, nil
}
