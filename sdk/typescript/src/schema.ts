// Generated from api/openapi.yaml by make sdk-generate.
export interface paths {
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page about the API, for people */
        get: operations["docs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the daemon runs */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metrics, in Prometheus' text format */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the daemon takes requests */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the coding agents of the host */
        get: operations["listAgents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents/{agent}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a coding agent and its adapter */
        get: operations["getAgent"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents/{agent}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start a coding agent in an empty cell, far enough to see it print its version */
        post: operations["checkAgent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/agents/{agent}/credentials": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Say which credentials a session would get, and why */
        get: operations["listAgentCredentials"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List cells */
        get: operations["listCells"];
        put?: never;
        /** Make a cell, or forks of one */
        post: operations["createCell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a cell */
        get: operations["getCell"];
        put?: never;
        post?: never;
        /** Remove a cell */
        delete: operations["removeCell"];
        options?: never;
        head?: never;
        /** Change the name and the settings of a cell */
        patch: operations["updateCell"];
        trace?: never;
    };
    "/v1/cells/{cell}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Accept a run */
        post: operations["accept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/accepted": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the state that an apply would write */
        get: operations["getAccepted"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/apply": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Write accepted work to a directory */
        post: operations["apply"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/branch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make live cells that begin with the memory of another one, or of a checkpoint */
        post: operations["branch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the states of a cell */
        get: operations["listCheckpoints"];
        put?: never;
        /** Name the present state */
        post: operations["createCheckpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/choose": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Choose the winner of a race that has ended */
        post: operations["choose"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare states */
        get: operations["diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/disk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The disk space of a cell */
        get: operations["getDisk"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/eval": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run code in the warm interpreter of a live cell */
        post: operations["eval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/exec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Execute a command with its streams in a WebSocket */
        get: operations["execSocket"];
        put?: never;
        /** Execute a command in a live cell */
        post: operations["exec"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/exec/{exec}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Join a command: its last 256 KiB of output, and what comes */
        get: operations["attach"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a state as an archive */
        get: operations["export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a file */
        get: operations["readFile"];
        /** Replace a file of a live cell */
        put: operations["writeFile"];
        post?: never;
        /** Remove a file of a live cell */
        delete: operations["removeFile"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/copy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Copy a file or a directory into a live cell */
        post: operations["copyFiles"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/list": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** List a directory */
        post: operations["listFiles"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/mkdir": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a directory, and those above it */
        post: operations["makeDir"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give a file another path */
        post: operations["moveFile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/stat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Describe a file */
        post: operations["statFile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/files/watch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Follow the changes in a directory of a live cell */
        post: operations["watchFiles"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Fork a cell */
        post: operations["forkCell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/forward": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Connect to a port of a live cell with the bytes in a WebSocket */
        get: operations["forwardPort"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The history of a cell */
        get: operations["getLog"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop the processes of a live cell */
        post: operations["pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show the controls of a run, without running anything */
        post: operations["planRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the policy of a cell */
        get: operations["getPolicy"];
        /** Give a cell another policy */
        put: operations["setPolicy"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/ports/{port}/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        get: operations["getPort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        put: operations["putPort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        post: operations["postPort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        delete: operations["deletePort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        options: operations["optionsPort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        head: operations["headPort"];
        /**
         * Send a request to a listener in a live cell
         * @description HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer.
         */
        patch: operations["patchPort"];
        trace?: never;
    };
    "/v1/cells/{cell}/processes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the processes of a live cell */
        get: operations["listProcesses"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/publications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Record what the caller has published on its own machine */
        post: operations["reportPublication"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take over what changed in the source directory */
        post: operations["refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Reject a run */
        post: operations["reject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Go back to a state */
        post: operations["restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Continue the processes of a paused cell */
        post: operations["resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Run a command as a transaction with its streams in a WebSocket */
        get: operations["runSocket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List runs */
        get: operations["listCellRuns"];
        put?: never;
        /** Run a command as a transaction */
        post: operations["run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a run */
        get: operations["getCellRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/runs/{run}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End a run */
        post: operations["cancelCellRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/runs/{run}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of a run */
        get: operations["listCellRunEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/runs/{run}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Output of a run */
        get: operations["getCellRunLogs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a cell live */
        post: operations["start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End a live cell */
        post: operations["stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/undelete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Bring back a removed cell */
        post: operations["undeleteCell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take the last apply back */
        post: operations["undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/cells/{cell}/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Recompute the hashes of states */
        post: operations["verifyCell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List decisions */
        get: operations["listDecisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The disk space of all cells and of the home */
        get: operations["getHomeDisk"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What this host can enforce */
        get: operations["doctor"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of runs, newest last */
        get: operations["listEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/gc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Free states that nothing needs */
        post: operations["collectGarbage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/graph": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The lineage of all states */
        get: operations["graph"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The key that signs */
        get: operations["getKey"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the presets */
        get: operations["listPresets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What a policy decides, by which rule and why */
        post: operations["explainPolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/suggest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A policy that allows what a run was denied */
        post: operations["suggestPolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Check a policy */
        post: operations["validatePolicy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/race": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Try several commands, and keep the best result */
        post: operations["race"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/receipts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List receipts */
        get: operations["listReceipts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/receipts/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Check signatures, chains and bound hashes */
        post: operations["verifyReceipts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/receipts/{receipt}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a receipt and the present decision */
        get: operations["getReceipt"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/receipts/{receipt}/bundle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A bundle that can be verified elsewhere */
        get: operations["getBundle"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List runs */
        get: operations["listRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a run */
        get: operations["getRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End a run */
        post: operations["cancelRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events of a run */
        get: operations["listRunEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/runs/{run}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Output of a run */
        get: operations["getRunLogs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List sessions of coding agents */
        get: operations["listSessions"];
        put?: never;
        /** Start a coding agent in a fork of a cell */
        post: operations["createSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show what would be decided about a session, without starting it */
        post: operations["planSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show a session */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /** Remove a session that has ended */
        delete: operations["removeSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Accept what a session changed */
        post: operations["acceptSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/agent": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Execute the agent of a session that was started with hold, with its streams in a WebSocket */
        get: operations["agentSocket"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/publish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Put the accepted work of a session on a new branch */
        post: operations["publishSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/rewind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take a session back to a turn */
        post: operations["rewindSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/send": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Type a message into a running session */
        post: operations["sendMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End a session */
        post: operations["stopSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List what happened in a session */
        get: operations["getTimeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session}/turns": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the turns of a session */
        get: operations["listTurns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List tokens */
        get: operations["listTokens"];
        put?: never;
        /** Make a token */
        post: operations["createToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tokens/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a token */
        delete: operations["revokeToken"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Upload an archive for a new cell; unused ones expire after an hour. It takes no Idempotency-Key */
        post: operations["upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What cells use, for each and in all */
        get: operations["usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/version": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the daemon speaks */
        get: operations["version"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AcceptBody: {
            /** @description Also write the changes to the source directory. */
            apply?: boolean;
            /** @description Accept all but paths that match, and nothing outside the workspace. */
            except?: string[];
            /** @description Accept a run that failed. */
            force?: boolean;
            /** @description Earlier undecided runs and captured states that are not accepted. What they changed is left out path by path; a path that accepted work changed as well stays whole. What was changed outside the workspace is left out then; the comparison counts it (elsewhere). */
            leave_out?: string[];
            /** @description Accept only paths that match, and nothing outside the workspace. */
            only?: string[];
            /** @description Why, for the record. */
            reason?: string;
            /** @description The run. It is refused if its state has undecided work that is named neither in runs nor in leave_out. Without run and runs, all undecided work is accepted. */
            run?: string;
            /** @description The runs and captured states that were shown, as the comparison of states names them. Nothing else is accepted. */
            runs?: string[];
        };
        AcceptResult: {
            also_decided: string[];
            applied?: components["schemas"]["ApplyResult"];
            cell: string;
            checkpoint_id: string;
            decision: string;
            decision_before?: string;
            decision_id: string;
            elsewhere?: components["schemas"]["AreaChange"][];
            elsewhere_left?: components["schemas"]["AreaChange"][];
            left_checkpoint_id?: string;
            root: string;
            run_id: string;
            skipped?: string[];
            whole?: components["schemas"]["PathNote"][];
        };
        AcceptedState: {
            cell: string;
            cell_id: string;
            checkpoint_id: string;
            contains: string[];
            origins: string[];
            receipts: components["schemas"]["PublishedReceipt"][];
            root: string;
            sources: string[];
            undecided: string;
        };
        AgentCredential: {
            how: string;
            key: string;
            source: string;
        };
        AgentDocument: {
            answer?: string;
            credentials: string[];
            /** @description The adapter. One of the operator's own is shown with the scope admin only. */
            document: string;
            file?: string;
            installed: boolean;
            name: string;
            problem?: string;
            program?: string;
            reaches: string[];
            ready: boolean;
            shown: string[];
            tested?: string;
            title: string;
            version?: string;
            version_place: string;
        };
        AgentSession: {
            acknowledged: string[];
            adapter: string;
            agent: string;
            agent_version: string;
            assurance_falls?: string[];
            autonomy: string;
            autonomy_assurance: string;
            began_checkpoint_id: string;
            cache_assurance: string;
            cell: string;
            cell_id: string;
            /** Format: int64 */
            changed_files: number;
            /** Format: int64 */
            clients: number;
            command: string[];
            credentials: string[];
            current_assurance: string;
            decision: string;
            directory: string;
            endpoints: string[];
            /** Format: int64 */
            exit_status?: number;
            final_assurance?: string;
            /** Format: date-time */
            finished_at?: string;
            head_checkpoint_id: string;
            initial_assurance: string;
            injection_policy_sha256: string;
            live_status: string;
            mode: string;
            /** Format: int64 */
            monitor_pid?: number;
            native_sandbox: string;
            network_policy: string;
            observability_assurance: string;
            /** Format: date-time */
            observed_at: string;
            policy_hash: string;
            receipt_id: string;
            run_id: string;
            run_ids: string[];
            session_assurance: string;
            session_id: string;
            /** Format: date-time */
            started_at: string;
            status: string;
            turns: string;
            workspace: string;
            workspace_control_plane: string;
            workspace_repo_mcp: string;
        };
        AgentState: {
            answer?: string;
            credentials: string[];
            file?: string;
            installed: boolean;
            name: string;
            problem?: string;
            program?: string;
            reaches: string[];
            ready: boolean;
            shown: string[];
            tested?: string;
            title: string;
            version?: string;
            version_place: string;
        };
        ApplyBody: {
            /** @description Patterns of control files that may be written. For the operator, and tokens with allow_control, whose patterns must match, too. */
            allow_control?: string[];
            /** @description Keep set-id bits. For the operator, and tokens with the pattern ** in allow_control. */
            allow_setuid?: boolean;
            /** @description Only say what would be written. */
            dry_run?: boolean;
            /** @description Apply all but paths that match. */
            except?: string[];
            /**
             * @description What happens to a path that both sides changed.
             * @enum {string}
             */
            on_conflict?: "fail" | "ours" | "theirs";
            /** @description Apply only paths that match. */
            only?: string[];
            /** @description The directory; without it, the source of the cell. Another one is for the operator, and tokens with allow_control. */
            to?: string;
        };
        ApplyResult: {
            already: string[];
            apply_id: string;
            cell: string;
            checkpoint_id: string;
            chosen: components["schemas"]["PathNote"][];
            dropped: components["schemas"]["PathNote"][];
            dry_run: boolean;
            kept: components["schemas"]["PathNote"][];
            left_behind?: components["schemas"]["PathNote"][];
            set_aside?: components["schemas"]["PathNote"][];
            to: string;
            untracked?: components["schemas"]["PathNote"][];
            written: components["schemas"]["ChangeJSON"][];
        };
        AreaChange: {
            area: string;
            /** Format: int64 */
            files: number;
        };
        BoundHash: {
            id?: string;
            sha256: string;
            status: string;
            what: string;
        };
        BranchBody: {
            /**
             * Format: double
             * @description Limit of processor time of each new cell, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name; without one, that of the branched cell. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description A checkpoint of the cell with memory: its id, a unique prefix or its name. Without it, the present moment of the cell, which must be live. */
            from?: string;
            /** @description The cell expires so long after the last request or command. */
            idle_timeout?: string;
            /** @description Labels of the cell. */
            labels?: {
                [key: string]: string;
            };
            /** @description Memory limit of each new cell, swap included, such as 512MiB. */
            memory?: string;
            /**
             * Format: int64
             * @description Make so many cells, called NAME-1 to NAME-N.
             */
            n?: number;
            /** @description Name of the new cell; without it, one after the branched cell. */
            name?: string;
            /**
             * @description What happens to an expired cell.
             * @enum {string}
             */
            on_timeout?: "stop" | "pause" | "remove";
            /**
             * Format: int64
             * @description Limit of processes and threads of each new cell.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the branched cell. */
            policy?: string;
            /** @description Stop each new cell after this time. */
            timeout?: string;
            /** @description The cell expires so long after its creation. */
            ttl?: string;
        };
        BranchChild: {
            cell: string;
            /** Format: int64 */
            first_answer_us: number;
            /** Format: int64 */
            memory_bytes: number;
            sockets?: string;
        };
        BranchOrigin: {
            /** Format: date-time */
            at: string;
            checkpoint_id: string;
            source: string;
            source_run_id: string;
        };
        BranchResult: {
            checkpoint_id: string;
            children: components["schemas"]["BranchChild"][];
            /** Format: int64 */
            pause_us: number;
            source: string;
        };
        CacheUse: {
            checkpoint_id: string;
            from: string;
            path: string;
            root: string;
            setting: string;
            /** Format: int64 */
            statement: number;
        };
        CellDisk: {
            areas: {
                [key: string]: number;
            };
            cell: string;
            /** Format: int64 */
            own_bytes: number;
            removed?: boolean;
            /** Format: int64 */
            shared_bytes: number;
            /** Format: int64 */
            total_bytes: number;
        };
        CellInfo: {
            backend: string;
            /** Format: int64 */
            bytes: number;
            cache: string;
            cell: string;
            cell_id: string;
            /** Format: date-time */
            created_at: string;
            /** Format: int64 */
            files: number;
            forked_from: string;
            head: string;
            idle_timeout: string;
            labels: {
                [key: string]: string;
            };
            last_decision: string;
            last_outcome: string;
            last_run: string;
            /** Format: int64 */
            layers: number;
            meta_root: string;
            mount_at: string;
            name: string;
            on_timeout: string;
            /** Format: int64 */
            own_bytes: number;
            /** Format: int64 */
            revision: number;
            root: string;
            runtime: string;
            source: string;
            state: string;
            ttl: string;
        };
        CellUsage: {
            cell: string;
            cell_id: string;
            /** Format: int64 */
            checkpoints: number;
            /** Format: int64 */
            cpu_us: number;
            /** Format: int64 */
            cpus_milli: number;
            /** Format: int64 */
            finished_runs: number;
            /** Format: int64 */
            live: number;
            /** Format: int64 */
            memory: number;
            name: string;
            /** Format: int64 */
            own_bytes: number;
            /** Format: int64 */
            paused: number;
            /** Format: int64 */
            runs: number;
            state: string;
            /** Format: int64 */
            unlimited: number;
        };
        ChangeJSON: {
            change: string;
            new_digest?: string;
            old_digest?: string;
            old_path?: string;
            path: string;
            path_base64?: string;
            type: string;
        };
        Check: {
            name: string;
            reason: string;
            remedy: string;
            status: string;
        };
        CheckpointBody: {
            /** @description Also keep the processes of a live cell of the runtime gvisor, with their memory. */
            memory?: boolean;
            /** @description Name of the checkpoint. */
            name?: string;
        };
        CheckpointInfo: {
            checkpoint_id: string;
            /** Format: date-time */
            created_at: string;
            /** @description Whether gc has freed its files. */
            freed: boolean;
            /** @description Whether it is the present state. */
            head: boolean;
            kind: string;
            /** @description The digest of the memory that was saved with it; without one there is none. */
            memory?: string;
            meta_root: string;
            names: string[];
            /** @description The state before it, or empty. */
            parent: string;
            root: string;
            /** @description The run that made it, or empty. */
            run_id: string;
        };
        CheckpointResult: {
            cell: string;
            checkpoint_id: string;
            live: boolean;
            memory?: string;
            meta_root: string;
            name: string;
            /** Format: int64 */
            pause_us: number;
            root: string;
        };
        ChooseBody: {
            /** @description Also write the changes to the source directory. */
            apply?: boolean;
            /** @description The cell of the attempt that shall win. The race has kept it. */
            attempt: string;
            /** @description Choose an attempt that did not succeed. */
            force?: boolean;
            /** @description Why, for the record. */
            reason?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
        };
        Consumption: {
            /** Format: int64 */
            checkpoints: number;
            /** Format: int64 */
            cpu_us: number;
            /** Format: int64 */
            cpus_milli: number;
            /** Format: int64 */
            finished_runs: number;
            /** Format: int64 */
            live: number;
            /** Format: int64 */
            memory: number;
            /** Format: int64 */
            own_bytes: number;
            /** Format: int64 */
            paused: number;
            /** Format: int64 */
            runs: number;
            /** Format: int64 */
            unlimited: number;
        };
        ControlFiles: {
            also?: string[];
            empty?: boolean;
            filtered: components["schemas"]["FilteredFile"][];
            hidden: string[];
            instructions?: string[];
            missing: string[];
            read_only: string[];
            state?: string[];
        };
        Controls: {
            capabilities: string;
            degraded: string[];
            kernel: string;
            landlock: string;
            limits: string;
            mount_api: string;
            namespaces: string[];
            network: string;
            no_new_privs: boolean;
            runtime: string;
            seccomp: string;
            sockets?: string;
            user: string;
        };
        Copied: {
            notes: string[];
        };
        CreateCell: {
            /**
             * @description How states are kept. Without it, the best one for the host.
             * @enum {string}
             */
            backend?: "overlay" | "clone" | "delta";
            /** @description The state to fork; without it, the present one. */
            checkpoint?: string;
            /** @description Patterns of files to leave out, besides the secret rules. From the operator, !PATTERN takes a rule back. */
            exclude?: string[];
            /** @description Fork this cell instead of using a source. */
            fork_of?: string;
            /** @description The cell expires so long after the last request or command. */
            idle_timeout?: string;
            /** @description Labels of the cell. */
            labels?: {
                [key: string]: string;
            };
            /** @description Path of the workspace in the cell. */
            mount_at?: string;
            /**
             * Format: int64
             * @description Make so many forks, called NAME-1 to NAME-N.
             */
            n?: number;
            /** @description Name of the cell. Without one it is derived from the source. */
            name?: string;
            /**
             * @description What happens to an expired cell.
             * @enum {string}
             */
            on_timeout?: "stop" | "pause" | "remove";
            /** @description A policy as YAML, or the name of a preset. */
            policy?: string;
            /**
             * @description What runs the commands.
             * @enum {string}
             */
            runtime?: "native" | "gvisor";
            /** @description Refuse a directory of the host that a cell was made from already. For callers who see all cells. */
            sole?: boolean;
            /** @description Where the files come from. */
            source?: components["schemas"]["Source"];
            /** @description The cell expires so long after its creation. */
            ttl?: string;
        };
        CreateSession: {
            /** @description Acknowledgements by name (breakglass, or one of allow), each with today's date in UTC. Only for the operator. */
            acknowledged?: {
                [key: string]: string;
            };
            /** @description The name of the agent; generic is any program. */
            agent: string;
            /** @description What to allow beyond the mode, with an acknowledgement. Only for the operator. */
            allow?: ("control-plane-vcs" | "repo-mcp" | "arbitrary-command")[];
            /** @description Run even if a control cannot be enforced. Only for the operator. */
            allow_degraded?: boolean;
            /** @description Admit a cell whose source is no git repository: its instruction files are used as they are. */
            allow_nongit?: boolean;
            /** @description Arguments of the agent. For generic they begin with the program, which the cell must have. */
            arguments?: string[];
            /** @description Run as root in the cell. Only for the operator. */
            as_root?: boolean;
            /**
             * @description Whether the agent works without asking (yolo, the default) or asks.
             * @enum {string}
             */
            autonomy?: "yolo" | "prompt";
            /**
             * @description Whether the cell keeps caches of package managers.
             * @enum {string}
             */
            cache?: "off" | "standard";
            /** @description The cell that the session is a fork of. */
            cell: string;
            /**
             * Format: double
             * @description Limit of processor time, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_addresses?: string[];
            /** @description System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_syscalls?: string[];
            /** @description Do not execute the agent yet: the first WebSocket at .../agent does, with its streams. Without one the session ends after two minutes. */
            hold?: boolean;
            /** @description Memory limit, swap included, such as 512MiB. */
            memory?: string;
            /**
             * @description What the session may reach. Without it strict, or that of the session that is rewound. breakglass is only for the operator.
             * @enum {string}
             */
            mode?: "strict" | "development" | "build" | "breakglass";
            /** @description Name of the session. Without one it is made from those of the cell and the agent. */
            name?: string;
            /** @description Begin with the undecided work of the cell. Without it the session begins with what is accepted. */
            on_top?: boolean;
            /** @description How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it. */
            output_limit?: string;
            /**
             * Format: int64
             * @description Limit of processes and threads.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the token. */
            policy?: string;
            /** @description The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator. */
            root?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /** @description When a turn is recorded: auto (the default), tool, off, or a duration such as 30s. */
            turns?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
            /** @description Where the command starts: absolute, or relative to the workspace. */
            workdir?: string;
        };
        CredentialDecision: {
            credential: string;
            credential_input_kind: string;
            credential_modes?: string[];
            credential_providers?: string[];
            credential_readiness: string;
            credential_resolver?: string;
            endpoints?: string[];
            how?: string;
            next_step?: string;
            problem?: string;
            selected: boolean;
            selection_reason: string;
            source?: string;
        };
        CredentialValue: {
            /** @description A name in the daemon's credentials file. */
            name?: string;
            /** @description The value itself. */
            value?: string;
        };
        DecisionInfo: {
            actor: string;
            automatic: boolean;
            cell: string;
            /** Format: date-time */
            created_at: string;
            decision_id: string;
            forced: boolean;
            head_after: string;
            head_before: string;
            race?: components["schemas"]["RaceInfo"];
            reason: string;
            receipt_id: string;
            result: string;
            run_id: string;
        };
        DeniedNetwork: {
            /** Format: int64 */
            attempts: number;
            offline?: boolean;
            to: string[];
        };
        DiffResult: {
            cell: string;
            changes: components["schemas"]["ChangeJSON"][];
            earlier?: components["schemas"]["EarlierWork"][];
            elsewhere?: components["schemas"]["AreaChange"][];
            from: string;
            notes: string[];
            runs?: string[];
            set_aside?: components["schemas"]["ChangeJSON"][];
            to: string;
            /** Format: int64 */
            unapplied?: number;
        };
        DiskResult: {
            cells: components["schemas"]["CellDisk"][];
            home?: {
                [key: string]: number;
            };
            /** Format: int64 */
            total_bytes: number;
        };
        DoctorCheck: {
            controls: components["schemas"]["Check"][];
        };
        EarlierWork: {
            /** Format: int64 */
            changed_files: number;
            checkpoint_after: string;
            checkpoint_before: string;
            command?: string[];
            executed?: components["schemas"]["Executed"];
            id: string;
        };
        Empty: Record<string, never>;
        EvalBody: {
            /** @description The code, in the language of the warm interpreter. */
            code: string;
        };
        EvalError: {
            message: string;
            traceback: string;
            type: string;
        };
        EvalResult: {
            /** Format: int64 */
            duration_us: number;
            error: components["schemas"]["EvalError"] | null;
            output: string;
            truncated?: ("value" | "value_json" | "output")[];
            value: string | null;
            value_json: unknown;
        };
        ExecAnswer: {
            /** Format: int64 */
            duration_us: number;
            exec_id: string;
            /**
             * Format: int64
             * @description The exit code; 124 if the command ran past its time limit.
             */
            exit_code: number;
            /**
             * Format: int64
             * @description The signal that ended the command, or 0.
             */
            signal: number;
            /** @description What the command wrote to its standard error. */
            stderr: string;
            /** @description The same in base64, if it is not UTF-8. */
            stderr_base64?: string;
            /** @description What the command wrote to its standard output. */
            stdout: string;
            /** @description The same in base64, if it is not UTF-8. */
            stdout_base64?: string;
            /** @description Whether the command ran past its time limit. */
            timed_out: boolean;
            /** @description Whether a stream was cut. */
            truncated: boolean;
        };
        ExecBody: {
            /** @description The command and its arguments. */
            command: string[];
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Input of the command, as text. */
            stdin?: string;
            /** @description Input of the command, in base64. */
            stdin_base64?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /** @description Give the command a terminal. */
            tty?: boolean;
            /** @description Where the command starts. */
            workdir?: string;
        };
        Executed: {
            commands: string[];
            /** Format: int64 */
            count: number;
        };
        ExplainBody: {
            /** @description With host: by the executable at this path. */
            binary?: string;
            /** @description The policy of this cell. */
            cell?: string;
            /** @description A connection to HOST:PORT. */
            host?: string;
            /** @description With host: a request with this method. */
            method?: string;
            /** @description An absolute path in the cell. */
            path?: string;
            /** @description A policy as YAML, or the name of a preset. */
            policy?: string;
            /**
             * @description With host: plain HTTP or TLS.
             * @enum {string}
             */
            scheme?: "http" | "https";
            /** @description A system call. */
            syscall?: string;
            /** @description With host: a request for this path. */
            url_path?: string;
        };
        Explanation: {
            access?: string;
            allowed: boolean;
            audited?: boolean;
            needs?: string;
            reason: string;
            rule: string;
        };
        FileBody: {
            /** @description Relative to the workspace, or absolute in the cell. */
            path: string;
        };
        FileInfo: {
            /**
             * @description Permission bits, in octal.
             * @example 0644
             */
            mode: string;
            /** Format: date-time */
            mtime: string;
            path: string;
            /** @description The bytes of the path, if it is not UTF-8. */
            path_base64?: string;
            /** Format: int64 */
            size: number;
            /** @description Where a symbolic link leads. */
            target?: string;
            /** @description The bytes of the target, if it is not UTF-8. */
            target_base64?: string;
            /** @enum {string} */
            type: "file" | "dir" | "symlink" | "other";
        };
        FileList: {
            entries: components["schemas"]["FileInfo"][];
        };
        FilteredFile: {
            path: string;
            removed: string[];
            unreadable?: boolean;
        };
        ForkBody: {
            /** @description The state to fork; without it, the present one. */
            checkpoint?: string;
            /** @description The cell expires so long after the last request or command. */
            idle_timeout?: string;
            /** @description Labels of the cell. */
            labels?: {
                [key: string]: string;
            };
            /** @description Fork the present state of a live cell. */
            live?: boolean;
            /**
             * Format: int64
             * @description Make so many forks, called NAME-1 to NAME-N.
             */
            n?: number;
            /** @description Name of the fork. */
            name?: string;
            /**
             * @description What happens to an expired cell.
             * @enum {string}
             */
            on_timeout?: "stop" | "pause" | "remove";
            /** @description The cell expires so long after its creation. */
            ttl?: string;
        };
        ForkedCell: {
            cell: string;
        };
        ForkedCells: {
            cells: components["schemas"]["ForkedCell"][];
            checkpoint_id: string;
            /** Format: int64 */
            engine_us: number;
            from: string;
            /**
             * Format: int64
             * @description How long a live cell stood still.
             */
            pause_us: number;
            /** @description The undecided runs and captured states that the new cells begin with. Accepting a new cell accepts them, too. */
            pending_runs?: string[];
            root: string;
        };
        GCBody: {
            /** @description Only say what would be freed. */
            dry_run?: boolean;
            /**
             * Format: int64
             * @description Keep so many states of each cell.
             */
            keep_last?: number;
            /** @description Free only what is older. */
            older_than?: string;
            /** @description Free stored output of runs that ended longer ago than this; 720h (30 days) without it. */
            output_older_than?: string;
            /** @description Free removed cells at once; they can be brought back for 7 days otherwise. */
            removed?: boolean;
        };
        GCResult: {
            /** Format: int64 */
            bytes: number;
            checkpoints: string[];
            dry_run: boolean;
            layers: string[];
            /**
             * Format: int64
             * @description Set by the command line only: bytes of copies of directories in the caller's own home.
             */
            mirror_bytes?: number;
            /** Format: int64 */
            objects: number;
            /** Format: int64 */
            outputs: number;
        };
        GraphNode: {
            cell: string;
            checkpoint_id: string;
            /** Format: date-time */
            created_at: string;
            decision: string;
            freed: boolean;
            heads: string[];
            kind: string;
            names: string[];
            outcome: string;
            parent: string;
            root: string;
            run_id: string;
        };
        Health: {
            /** @enum {string} */
            status: "ok" | "draining";
        };
        InitResult: {
            backend: string;
            backend_reason: string;
            /** Format: int64 */
            bytes: number;
            cell: string;
            cell_id: string;
            checkpoint_id: string;
            /** Format: int64 */
            dirs: number;
            /** Format: int64 */
            files: number;
            kept_by_git: string[];
            left_out: components["schemas"]["LeftOut"][];
            meta_root: string;
            mount_at: string;
            notes: string[];
            root: string;
            runtime: string;
            source: string;
            timings: components["schemas"]["InitTimings"];
            unmapped_ids: string[];
        };
        InitTimings: {
            /** Format: int64 */
            import_us: number;
            /** Format: int64 */
            total_us: number;
        };
        KeyInfo: {
            algorithm: string;
            key_id: string;
            previous: string[];
            public_key_pem: string;
            trusted: string[];
        };
        LeftOut: {
            path: string;
            rule: string;
        };
        ListAgentSession: {
            items: components["schemas"]["AgentSession"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListAgentState: {
            items: components["schemas"]["AgentState"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListCellInfo: {
            items: components["schemas"]["CellInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListCheckpointInfo: {
            items: components["schemas"]["CheckpointInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListCredentialDecision: {
            items: components["schemas"]["CredentialDecision"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListDecisionInfo: {
            items: components["schemas"]["DecisionInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListFilesBody: {
            /**
             * Format: int64
             * @description How many levels; without it, one.
             */
            depth?: number;
            /** @description Relative to the workspace, or absolute in the cell. */
            path?: string;
        };
        ListGraphNode: {
            items: components["schemas"]["GraphNode"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListLogEntry: {
            items: components["schemas"]["LogEntry"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListPreset: {
            items: components["schemas"]["Preset"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListProcessInfo: {
            items: components["schemas"]["ProcessInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListReceiptInfo: {
            items: components["schemas"]["ReceiptInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListRunInfo: {
            items: components["schemas"]["RunInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListTimelineEntry: {
            items: components["schemas"]["TimelineEntry"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListTokenInfo: {
            items: components["schemas"]["TokenInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        ListTurnInfo: {
            items: components["schemas"]["TurnInfo"][];
            /** @description Cursor of the next page, or null. */
            next: string | null;
        };
        LiveInfo: {
            branch?: components["schemas"]["BranchOrigin"];
            degraded?: string[];
            ending?: boolean;
            /** Format: int64 */
            pid: number;
            run_id: string;
            runtime: string;
            sessions: components["schemas"]["SessionInfo"][];
            /** Format: date-time */
            since: string;
            socket: string;
            template?: boolean;
        };
        LogEntry: {
            actor?: string;
            agent?: string;
            agent_version?: string;
            /** Format: int64 */
            changed_files?: number;
            checkpoint_id?: string;
            command?: string[];
            /** Format: date-time */
            created_at: string;
            decision?: string;
            details?: {
                [key: string]: string;
            };
            executed?: components["schemas"]["Executed"];
            /** Format: int64 */
            exit_code?: number;
            id: string;
            kind: string;
            name?: string;
            outcome?: string;
            reason?: string;
            receipt_id?: string;
            run_id?: string;
            /** Format: int64 */
            seq: number;
        };
        MoveFileBody: {
            /** @description Relative to the workspace, or absolute in the cell. */
            from: string;
            /** @description The new path. A file there is replaced. */
            to: string;
        };
        MoveResult: {
            also_decided: string[];
            cell: string;
            checkpoint_id: string;
            decision: string;
            decision_id: string;
            elsewhere?: components["schemas"]["AreaChange"][];
            left_checkpoint_id: string;
            notes: string[];
            root: string;
            run_id: string;
        };
        PathNote: {
            note: string;
            path: string;
            path_base64?: string;
        };
        PauseBody: {
            /** @description End the processes, and keep the files only. */
            fs_only?: boolean;
        };
        PauseResult: {
            cell: string;
            changed: boolean;
            fs_only?: boolean;
            on_disk?: boolean;
            run_id: string;
            state: string;
        };
        PolicyApplied: {
            cell: string;
            effective_policy_hash?: string;
            /** Format: int64 */
            from_event?: number;
            live: boolean;
            policy_hash: string;
            policy_hash_before: string;
            run_id?: string;
        };
        PolicyResult: {
            cell: string;
            policy: unknown;
            policy_hash: string;
        };
        PolicySuggestion: {
            added: string[];
            cell: string;
            left: string[];
            policy: unknown;
            policy_hash: string;
            policy_hash_before: string;
            run_id: string;
            unseen: boolean;
        };
        Preset: {
            name: string;
            summary: string;
        };
        Problem: {
            /** @description A stable word for the failure. */
            code: string;
            /** @description What failed and why. */
            detail: string;
            /** @description Every path or field concerned, one line each. */
            details: string[];
            /** @description What to do. */
            hint: string;
            /** @description The id of the request. */
            instance: string;
            /**
             * @description What the caller can do about it. A later version may know more kinds; treat those as failed.
             * @enum {string}
             */
            kind: "failed" | "usage" | "not_found" | "refused" | "busy";
            /** Format: int64 */
            status: number;
            /** @description The status in words. */
            title: string;
            /** @example about:blank */
            type: string;
        };
        ProcessInfo: {
            args: string[];
            /** Format: int64 */
            cpu_us: number;
            exec_id: string;
            /** Format: int64 */
            pid: number;
            /** Format: int64 */
            ppid: number;
            /** Format: int64 */
            rss_bytes: number;
            /** Format: date-time */
            started_at: string;
            state: string;
            /** Format: int64 */
            uid: number;
        };
        PublicationBody: {
            /** @description The branch that it begins at. */
            base: string;
            /** @description The commit of the base. */
            base_commit: string;
            /** @description The new branch. */
            branch: string;
            /** @description The accepted state that was published. */
            checkpoint_id: string;
            /** @description The new commit. */
            commit: string;
            /** @description Names the publication. */
            publish_id: string;
            /** @description The URL of the pull request. */
            pull_request?: string;
            /** @description The URL that it was pushed to. */
            pushed_to?: string;
            /** @description The repository, as a path on the caller's machine. */
            repository: string;
            /** @description The kind of its signature: ssh, gpg or off. */
            signed: string;
            /** @description What is missing of the publication. */
            state?: string;
        };
        PublishBody: {
            /** @description The branch to start from. */
            base?: string;
            /** @description Name of the new branch. */
            branch: string;
            /** @description Make and check the commit, publish nothing. */
            dry_run?: boolean;
            /** @description Publish the commits that were made in the session instead of one. */
            keep_commits?: boolean;
            /** @description Further text of the commit's message. */
            message?: string;
            /** @description Make a pull request; implies push. */
            pr?: boolean;
            /** @description Push the branch to the push URL of origin. */
            push?: boolean;
            /**
             * @description The signature; without it, as the operator's git is configured.
             * @enum {string}
             */
            sign?: "ssh" | "gpg" | "off";
            /** @description First line of the commit's message. */
            title?: string;
        };
        PublishLimits: {
            /** Format: int64 */
            areas: number;
            /** Format: int64 */
            binaries: number;
            /** Format: int64 */
            bytes: number;
            /** Format: int64 */
            files: number;
            /** Format: int64 */
            lines: number;
        };
        PublishResult: {
            /** Format: int64 */
            areas: number;
            base: string;
            base_commit: string;
            /** Format: int64 */
            binaries: number;
            branch: string;
            /** Format: int64 */
            bytes: number;
            cell: string;
            changes: components["schemas"]["PublishedChange"][];
            checkpoint_id: string;
            commit: string;
            /** Format: int64 */
            commits: number;
            dry_run: boolean;
            /** Format: int64 */
            files: number;
            ignored: string[];
            limits: components["schemas"]["PublishLimits"];
            /** Format: int64 */
            lines: number;
            publish_id: string;
            pull_request?: string;
            pushed_to?: string;
            receipts: components["schemas"]["PublishedReceipt"][];
            repository: string;
            root: string;
            signed: string;
            without_effect: string[];
        };
        PublishedChange: {
            change: string;
            path: string;
            path_base64?: string;
        };
        PublishedReceipt: {
            decision_id?: string;
            receipt_id: string;
            run_id: string;
        };
        Quota: {
            /** Format: double */
            cpus?: number;
            /** Format: int64 */
            disk?: number;
            /** Format: int64 */
            live_cells?: number;
            /** Format: int64 */
            memory?: number;
            /** Format: double */
            requests_per_second?: number;
            /** Format: int64 */
            runs?: number;
        };
        RaceAttempt: {
            /** Format: int64 */
            attempt: number;
            cell: string;
            /** Format: int64 */
            changed_files: number;
            /** Format: int64 */
            duration_us: number;
            elsewhere?: components["schemas"]["AreaChange"][];
            /** Format: int64 */
            exit_code: number;
            /** Format: int64 */
            judge_exit_code: number | null;
            judge_receipt_id?: string;
            outcome: string;
            receipt_id: string;
            run_id: string;
            /** Format: double */
            score: number | null;
        };
        RaceAttemptBody: {
            /** @description Instead of command: what the warm interpreter of a branch runs. */
            code?: string;
            /** @description The command and its arguments. */
            command?: string[];
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
        };
        RaceAttemptInfo: {
            /** Format: int64 */
            attempt: number;
            cell: string;
            /** Format: int64 */
            duration_us: number;
            /** Format: int64 */
            exit_code: number;
            /** Format: int64 */
            judge_exit_code: number | null;
            judge_receipt_id: string;
            outcome: string;
            receipt_id: string;
            run_id: string;
            /** Format: double */
            score: number | null;
        };
        RaceBody: {
            /** @description Move the cell to the state of the winner. */
            accept?: boolean;
            /** @description Run even if a control cannot be enforced. Only for the operator. */
            allow_degraded?: boolean;
            /** @description Also write it to the source directory. */
            apply?: boolean;
            /** @description Run as root in the cell. Only for the operator. */
            as_root?: boolean;
            /** @description Different commands, instead of command and n. */
            attempts?: components["schemas"]["RaceAttemptBody"][];
            /**
             * @description How the winner is chosen; by default exit.
             * @enum {string}
             */
            best?: "exit" | "score" | "fastest";
            /**
             * @description Whether the cell keeps caches of package managers.
             * @enum {string}
             */
            cache?: "off" | "standard";
            /** @description The cell to fork. */
            cell: string;
            /** @description Instead of command: what the warm interpreters of n branches run. */
            code?: string;
            /** @description The command of each of n attempts. */
            command?: string[];
            /**
             * Format: double
             * @description Limit of processor time, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_addresses?: string[];
            /** @description System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_syscalls?: string[];
            /**
             * Format: int64
             * @description How many attempts run at once; by default one for each processor.
             */
            jobs?: number;
            /** @description The command that judges each attempt, in a fork of its own, without a network. */
            judge?: string[];
            /** @description Keep the cells of all attempts. */
            keep?: boolean;
            /** @description Memory limit, swap included, such as 512MiB. */
            memory?: string;
            /**
             * Format: int64
             * @description The number of attempts.
             */
            n?: number;
            /** @description How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it. */
            output_limit?: string;
            /**
             * Format: int64
             * @description Limit of processes and threads.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the token. */
            policy?: string;
            /** @description The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator. */
            root?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
            /** @description Make the attempts branches of the cell, which must be live: they begin with its memory. */
            warm?: boolean;
            /** @description Where the command starts: absolute, or relative to the workspace. */
            workdir?: string;
        };
        RaceInfo: {
            attempts: components["schemas"]["RaceAttemptInfo"][];
            best: string;
            judge: string[];
            /** Format: int64 */
            winner: number;
        };
        RaceResult: {
            also_decided: string[];
            applied?: components["schemas"]["ApplyResult"];
            attempts: components["schemas"]["RaceAttempt"][];
            cell: string;
            decision_id: string;
            kept: string[];
            /** Format: int64 */
            winner: number | null;
        };
        ReceiptInfo: {
            cell: string;
            /** Format: date-time */
            created_at: string;
            decision: string;
            outcome: string;
            receipt_id: string;
            run_id: string;
        };
        ReceiptProblem: {
            id: string;
            what: string;
        };
        ReceiptVerifyRequest: {
            /** @description Every receipt. */
            all?: boolean;
            /** @description A bundle, in base64. */
            bundle?: string;
            /** @description Every receipt of this cell. */
            cell?: string;
            /** @description A public key in PEM, in base64, to trust besides those of the daemon. */
            key?: string;
            /** @description A receipt, by its id. */
            receipt?: string;
        };
        ReceiptVerifyResult: {
            bound: components["schemas"]["BoundHash"][];
            /** Format: int64 */
            checked: number;
            key_id: string;
            notes: string[];
            ok: boolean;
            problems: components["schemas"]["ReceiptProblem"][];
            words?: components["schemas"]["ReceiptWords"];
        };
        ReceiptWords: {
            decided: string;
            from: string;
            ran: string;
            why: string;
        };
        RefreshBody: {
            /** @description Roots of states that the caller's directory has had, the newest first. Both sides are compared with the newest one that the cell knows. */
            based_on?: string[];
            /**
             * @description What happens to a path that both sides changed.
             * @enum {string}
             */
            on_conflict?: "fail" | "ours" | "theirs";
            /** @description An upload with the present files of the caller's directory, for a cell that was made from an upload. */
            upload?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
        };
        RefreshResult: {
            cell: string;
            changed: components["schemas"]["PathNote"][];
            checkpoint_id: string;
            chosen: components["schemas"]["PathNote"][];
            conflicts: components["schemas"]["PathNote"][];
            left_out: components["schemas"]["LeftOut"][];
            root: string;
        };
        RejectBody: {
            /** @description Why, for the record. */
            reason?: string;
            /** @description The run; without it, the newest undecided one. */
            run?: string;
        };
        RestoreBody: {
            /** @description The state to go back to. */
            checkpoint?: string;
            /** @description Stop a live cell first. */
            force?: boolean;
            /** @description Why, for the record. */
            reason?: string;
            /** @description Go back to the state before this run. */
            run?: string;
            /** @description The runs that may be taken back. If some are named, a request that takes back another one is refused. */
            runs?: string[];
        };
        ResumeBody: {
            /** @description Values for credentials of the policy, by name. They are not kept while a cell is paused on disk. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Drop the memory that the cell was paused with, and start it without its processes. */
            fs_only?: boolean;
        };
        RewindBody: {
            /** @description Acknowledgements by name (breakglass, or one of allow), each with today's date in UTC. Only for the operator. */
            acknowledged?: {
                [key: string]: string;
            };
            /** @description What to allow beyond the mode, with an acknowledgement. Only for the operator. */
            allow?: ("control-plane-vcs" | "repo-mcp" | "arbitrary-command")[];
            /** @description Run even if a control cannot be enforced. Only for the operator. */
            allow_degraded?: boolean;
            /** @description Arguments of the agent. For generic they begin with the program, which the cell must have. */
            arguments?: string[];
            /** @description Run as root in the cell. Only for the operator. */
            as_root?: boolean;
            /**
             * @description Whether the agent works without asking (yolo, the default) or asks.
             * @enum {string}
             */
            autonomy?: "yolo" | "prompt";
            /**
             * @description Whether the cell keeps caches of package managers.
             * @enum {string}
             */
            cache?: "off" | "standard";
            /**
             * Format: double
             * @description Limit of processor time, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_addresses?: string[];
            /** @description System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_syscalls?: string[];
            /** @description Do not execute the agent yet, as for a new session. */
            hold?: boolean;
            /** @description Memory limit, swap included, such as 512MiB. */
            memory?: string;
            /**
             * @description What the session may reach. Without it strict, or that of the session that is rewound. breakglass is only for the operator.
             * @enum {string}
             */
            mode?: "strict" | "development" | "build" | "breakglass";
            /** @description Do not start the agent again. */
            no_start?: boolean;
            /** @description How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it. */
            output_limit?: string;
            /**
             * Format: int64
             * @description Limit of processes and threads.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the token. */
            policy?: string;
            /** @description Why, for the log. */
            reason?: string;
            /** @description The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator. */
            root?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /**
             * Format: int64
             * @description Go back to the state after this turn. Without it, to the turn before the last.
             */
            to?: number;
            /** @description When a turn is recorded: auto (the default), tool, off, or a duration such as 30s. */
            turns?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
            /** @description Where the command starts: absolute, or relative to the workspace. */
            workdir?: string;
        };
        RewoundSession: {
            cell: string;
            checkpoint_id: string;
            left_checkpoint_id: string;
            root: string;
            session: components["schemas"]["AgentSession"];
            set_aside?: string[];
            stopped?: components["schemas"]["RunResult"];
            /** Format: int64 */
            turn: number;
        };
        RunAnswer: {
            cache?: components["schemas"]["CacheUse"];
            cell: string;
            /** Format: int64 */
            changed_files: number;
            checkpoint_after: string;
            checkpoint_before: string;
            controls: components["schemas"]["Controls"];
            decision: string;
            degraded: string[];
            denied: components["schemas"]["DeniedNetwork"];
            elsewhere?: components["schemas"]["AreaChange"][];
            error?: string;
            events: {
                [key: string]: number;
            };
            /** Format: int64 */
            exit_code: number;
            notes: string[];
            outcome: string;
            policy_hash: string;
            receipt_id: string;
            root_after: string;
            root_before: string;
            run_id: string;
            /** Format: int64 */
            signal: number;
            split_links: string[];
            /** @description What the command wrote to its standard error. */
            stderr: string;
            /** @description The same in base64, if it is not UTF-8. */
            stderr_base64?: string;
            /** @description What the command wrote to its standard output. */
            stdout: string;
            /** @description The same in base64, if it is not UTF-8. */
            stdout_base64?: string;
            timings: components["schemas"]["RunTimings"];
            /** @description Whether a stream was cut. */
            truncated: boolean;
            unanswered?: components["schemas"]["UnansweredNetwork"];
        };
        RunBody: {
            /** @description Accept the run if the command succeeds. It stays pending if earlier work is undecided. Needs the scope decide. */
            accept_on_success?: boolean;
            /** @description Run even if a control cannot be enforced. Only for the operator. */
            allow_degraded?: boolean;
            /** @description Run as root in the cell. Only for the operator. */
            as_root?: boolean;
            /**
             * @description Whether the cell keeps caches of package managers.
             * @enum {string}
             */
            cache?: "off" | "standard";
            /** @description Name the state before the run. */
            checkpoint_name?: string;
            /** @description The command and its arguments. */
            command: string[];
            /**
             * Format: double
             * @description Limit of processor time, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_addresses?: string[];
            /** @description System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_syscalls?: string[];
            /** @description Memory limit, swap included, such as 512MiB. */
            memory?: string;
            /** @description How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it. */
            output_limit?: string;
            /**
             * Format: int64
             * @description Limit of processes and threads.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the token. */
            policy?: string;
            /** @description Restore the cell if the command fails. */
            restore_on_fail?: boolean;
            /** @description The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator. */
            root?: string;
            /** @description Input of the command, as text. */
            stdin?: string;
            /** @description Input of the command, in base64. */
            stdin_base64?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
            /** @description Where the command starts: absolute, or relative to the workspace. */
            workdir?: string;
        };
        RunInfo: {
            actor: string;
            cell: string;
            /** Format: int64 */
            changed_files?: number;
            checkpoint_after?: string;
            checkpoint_before: string;
            command: string[];
            decision?: string;
            executed?: components["schemas"]["Executed"];
            /** Format: int64 */
            exit_code?: number;
            /** Format: date-time */
            finished_at?: string;
            outcome?: string;
            policy_hash?: string;
            receipt_id?: string;
            result?: components["schemas"]["RunResult"];
            run_id: string;
            session?: components["schemas"]["SessionTerms"];
            /** Format: int64 */
            signal?: number;
            /** Format: date-time */
            started_at: string;
            /** @enum {string} */
            state: "running" | "ended";
        };
        RunPlan: {
            args: string[];
            cache?: components["schemas"]["CacheUse"];
            cell: string;
            checkpoint_before: string;
            controls: components["schemas"]["Controls"];
            degraded: string[];
            env_names: string[];
            grants: string[];
            policy_hash: string;
            read_only: string[];
            root_before: string;
            /** Format: int64 */
            timeout_us: number;
            workdir: string;
        };
        RunResult: {
            cache?: components["schemas"]["CacheUse"];
            cell: string;
            /** Format: int64 */
            changed_files: number;
            checkpoint_after: string;
            checkpoint_before: string;
            controls: components["schemas"]["Controls"];
            decision: string;
            degraded: string[];
            denied: components["schemas"]["DeniedNetwork"];
            elsewhere?: components["schemas"]["AreaChange"][];
            error?: string;
            events: {
                [key: string]: number;
            };
            /** Format: int64 */
            exit_code: number;
            notes: string[];
            outcome: string;
            policy_hash: string;
            receipt_id: string;
            root_after: string;
            root_before: string;
            run_id: string;
            /** Format: int64 */
            signal: number;
            split_links: string[];
            timings: components["schemas"]["RunTimings"];
            unanswered?: components["schemas"]["UnansweredNetwork"];
        };
        RunStarted: {
            run_id: string;
            /** @enum {string} */
            state: "running";
        };
        RunTimings: {
            /** Format: int64 */
            command_us: number;
            /** Format: int64 */
            decide_us: number;
            /** Format: int64 */
            prepare_us: number;
            /** Format: int64 */
            seal_us: number;
            /** Format: int64 */
            start_us: number;
            /** Format: int64 */
            total_us: number;
        };
        SendBody: {
            /** @description What is typed: text without control characters. */
            message: string;
            /** @description Do not press Enter. */
            no_newline?: boolean;
        };
        SentMessage: {
            /** @description Whether the program has shown something on its terminal since. Otherwise it may not have taken the message. */
            confirmed: boolean;
            /** Format: int64 */
            sent_bytes: number;
            session_id: string;
        };
        SessionInfo: {
            args: string[];
            /** Format: int64 */
            clients: number;
            detachable: boolean;
            exec_id: string;
            /** @description The cell ends with it. It is the agent of a session. */
            main: boolean;
            running: boolean;
            /** Format: date-time */
            started_at: string;
            tty: boolean;
        };
        SessionLimits: {
            /** Format: int64 */
            disk_bytes: number;
            /** Format: int64 */
            memory_bytes: number;
            /** Format: int64 */
            pids: number;
            /** Format: int64 */
            wall_time_seconds: number;
        };
        SessionPlan: {
            assurance_reasons: string[];
            credentials: components["schemas"]["AgentCredential"][];
            environment: {
                [key: string]: string;
            };
            kept_home?: boolean;
            limits: components["schemas"]["SessionLimits"];
            masked: string[];
            missing_credentials: string[];
            notes: string[];
            on_top?: boolean;
            optional_limits: boolean;
            packages?: string;
            policy_hash: string;
            program: string;
            show: string[];
            ssh_notes?: string[];
            terms: components["schemas"]["SessionTerms"];
            title: string;
            turns_taken?: string;
            version_place: string;
            workspace: string;
        };
        SessionTerms: {
            acknowledged: string[];
            adapter: string;
            agent: string;
            agent_version: string;
            assurance_falls?: string[];
            autonomy: string;
            autonomy_assurance: string;
            cache_assurance: string;
            command: string[];
            credentials: string[];
            directory: string;
            endpoints: string[];
            injection_policy_sha256: string;
            mode: string;
            native_sandbox: string;
            network_policy: string;
            observability_assurance: string;
            session_assurance: string;
            turns: string;
            workspace_control_plane: string;
            workspace_repo_mcp: string;
        };
        Source: {
            /** @description Begin with an empty directory. */
            empty?: boolean;
            /** @description A directory of the host that the operator allows. */
            path?: string;
            /** @description An upload, by its id. */
            upload?: string;
        };
        StartBody: {
            /** @description Run even if a control cannot be enforced. Only for the operator. */
            allow_degraded?: boolean;
            /** @description Run as root in the cell. Only for the operator. */
            as_root?: boolean;
            /**
             * @description Whether the cell keeps caches of package managers.
             * @enum {string}
             */
            cache?: "off" | "standard";
            /**
             * Format: double
             * @description Limit of processor time, in processors, such as 1.5.
             */
            cpus?: number;
            /** @description Values for credentials of the policy, by name. */
            credentials?: {
                [key: string]: components["schemas"]["CredentialValue"];
            };
            /** @description Variables of the command. */
            env?: {
                [key: string]: string;
            };
            /** @description Ranges of addresses that are not public, and that the policy may list. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_addresses?: string[];
            /** @description System calls that the policy may allow although cells are denied them. Only for the operator, or within the policy of the token, which grants them by itself. */
            grant_syscalls?: string[];
            /** @description Memory limit, swap included, such as 512MiB. */
            memory?: string;
            /** @description How much of each stream is stored, such as 1MiB; 64MiB without it, and more is only for the operator. A policy can lower it. */
            output_limit?: string;
            /**
             * Format: int64
             * @description Limit of processes and threads.
             */
            pids?: number;
            /** @description A policy as YAML, or the name of a preset. It is enforced together with that of the token. */
            policy?: string;
            /** @description The system that the cell sees: host, host-overlay or a directory. Other than host is only for the operator. */
            root?: string;
            /** @description Time limit, such as 30s. */
            timeout?: string;
            /** @description How long to wait for a busy cell. */
            wait?: string;
            /** @description Make the cell a template, which can be branched. */
            warm?: components["schemas"]["WarmBody"];
            /** @description Where the command starts: absolute, or relative to the workspace. */
            workdir?: string;
        };
        StartResult: {
            cell: string;
            cell_id: string;
            control_files?: components["schemas"]["ControlFiles"];
            controls: components["schemas"]["Controls"];
            degraded: string[];
            /** Format: int64 */
            pid: number;
            /** Format: int64 */
            ready_us?: number;
            run_id: string;
            socket: string;
            /** Format: date-time */
            started_at: string;
        };
        StatusResult: {
            applied: string;
            backend: string;
            backend_reason: string;
            /** Format: int64 */
            bytes: number;
            cache: string;
            cell: string;
            cell_id: string;
            /** Format: int64 */
            checkpoints: number;
            /** Format: date-time */
            created_at: string;
            /** Format: int64 */
            files: number;
            forked_from: string;
            head: string;
            holder: string;
            idle_timeout: string;
            labels: {
                [key: string]: string;
            };
            last_decision: string;
            last_outcome: string;
            last_receipt: string;
            last_run: string;
            /** Format: int64 */
            layers: number;
            left_out: components["schemas"]["LeftOut"][];
            live?: components["schemas"]["LiveInfo"];
            meta_root: string;
            mount_at: string;
            name: string;
            on_timeout: string;
            /** Format: int64 */
            own_bytes: number;
            pending_runs: string[];
            pending_states: string[];
            read_only: string[];
            /** Format: int64 */
            revision: number;
            root: string;
            /** Format: int64 */
            runs: number;
            runtime: string;
            source: string;
            state: string;
            ttl: string;
        };
        StopBody: {
            /** @description Time between asking the processes to end and killing them. */
            grace?: string;
        };
        StopSessionBody: {
            /** @description Kill the processes at once. */
            force?: boolean;
        };
        SuggestBody: {
            /** @description The cell. */
            cell: string;
            /** @description The run; without it, the last one. */
            run?: string;
        };
        TimelineEntry: {
            /** Format: date-time */
            at: string;
            details: {
                [key: string]: string;
            };
            kind: string;
            summary: string;
        };
        TokenBody: {
            /** @description Patterns of control files that the token may have written to a directory. With any, apply takes to; with **, also allow_setuid. */
            allow_control?: string[];
            /** @description The token sees only cells whose names begin so. */
            cells?: string;
            /** @description Names in the daemon's credentials file that requests may use. */
            credentials?: string[];
            /** @description The token ends after this time. */
            expires?: string;
            /** @description Name of the token, which is the actor in statements. */
            name: string;
            /** @description The ceiling: a run is allowed only what its own policy and this one allow. */
            policy?: string;
            /** @description Bounds of what the token uses. */
            quota?: components["schemas"]["Quota"];
            /** @description What the token may do: read, run, decide, admin. */
            scopes: string[];
        };
        TokenCreated: {
            allow_control: string[];
            cells: string;
            /** Format: date-time */
            created_at: string;
            created_by: string;
            credentials: string[];
            entry?: string;
            /** Format: date-time */
            expires_at: string | null;
            id: string;
            name: string;
            policy_hash: string;
            quota: components["schemas"]["Quota"];
            /** Format: date-time */
            revoked_at: string | null;
            revoked_by: string;
            scopes: string[];
            state: string;
            token: string;
        };
        TokenInfo: {
            allow_control: string[];
            cells: string;
            /** Format: date-time */
            created_at: string;
            created_by: string;
            credentials: string[];
            /** Format: date-time */
            expires_at: string | null;
            id: string;
            name: string;
            policy_hash: string;
            quota: components["schemas"]["Quota"];
            /** Format: date-time */
            revoked_at: string | null;
            revoked_by: string;
            scopes: string[];
            state: string;
        };
        TurnInfo: {
            /** Format: int64 */
            added: number;
            /** Format: int64 */
            asked?: number;
            /** Format: date-time */
            at: string;
            by?: string;
            /** Format: int64 */
            changed_files: number;
            checkpoint_id: string;
            left?: boolean;
            /** Format: int64 */
            pause_us: number;
            /** Format: int64 */
            removed: number;
            run_id: string;
            /** Format: int64 */
            turn: number;
            unfrozen?: boolean;
        };
        UnansweredNetwork: {
            /** Format: int64 */
            attempts: number;
            reason: string;
            to: string[];
        };
        UndoBody: {
            /** @description Only say what would be taken back. */
            dry_run?: boolean;
            /** @description Leave paths that match as they are. */
            except?: string[];
            /**
             * @description What happens to a path that was changed since.
             * @enum {string}
             */
            on_conflict?: "fail" | "ours" | "theirs";
        };
        UpdateBody: {
            /** @description The cell expires so long after the last request or command; null is never. */
            idle_timeout?: string | null;
            /** @description All labels; null removes them. */
            labels?: {
                [key: string]: string;
            } | null;
            /** @description The new name. */
            name?: string;
            /** @description What happens to an expired cell: stop, pause or remove; null is stop. */
            on_timeout?: string | null;
            /** @description The cell expires so long after its creation; null is never. */
            ttl?: string | null;
        };
        Upload: {
            /** Format: int64 */
            bytes: number;
            sha256: string;
            /** @description The id, for the source of a cell. */
            upload: string;
        };
        UsageResult: {
            cells: components["schemas"]["CellUsage"][];
            total: components["schemas"]["Consumption"];
        };
        ValidateBody: {
            /** @description A policy as YAML, or the name of a preset. */
            policy: string;
        };
        VerifiedState: {
            checkpoint_id: string;
            ok: boolean;
            root: string;
        };
        VerifyBody: {
            /** @description Verify every state. */
            all?: boolean;
            /** @description The state; without it, the present one. */
            checkpoint?: string;
        };
        VerifyProblem: {
            checkpoint_id: string;
            path: string;
            what: string;
        };
        VerifyResult: {
            cell: string;
            checkpoints: components["schemas"]["VerifiedState"][];
            differences: components["schemas"]["VerifyProblem"][];
        };
        VersionInfo: {
            /** @description The version of the API, such as v1. */
            api: string;
            version: string;
        };
        WarmBody: {
            /** @description The command that becomes the warm process. It must take part: see the protocol of warm processes. */
            command?: string[];
            /** @description A Python interpreter instead of a command. */
            python?: components["schemas"]["WarmPython"];
            /** @description What must hold when the process says that it is warm: an expression that its output matches, or file:PATH. With the runtime gvisor it is needed, and says when the cell is warm; port:N and notify are possible there, too. */
            ready?: string;
            /** @description The time to become warm; without it, 60s. */
            ready_timeout?: string;
            /** @description Input of the command, as text. */
            stdin?: string;
        };
        WarmPython: {
            /** @description Import these modules first. */
            modules?: string[];
            /** @description The interpreter, a path in the cell or a name; without it, python3. */
            program?: string;
            /** @description Then run this file of the cell, absolute or relative to the workspace. */
            script?: string;
        };
        WatchBody: {
            /** @description A directory, relative to the workspace, or absolute in the cell. */
            path?: string;
            /** @description Also what is below it. */
            recursive?: boolean;
        };
    };
    responses: {
        /** @description Bad Gateway */
        BadGateway: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Bad Request */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Conflict */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Forbidden */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Gateway Timeout */
        GatewayTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Insufficient Storage */
        InsufficientStorage: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Internal Server Error */
        InternalServerError: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Method Not Allowed */
        MethodNotAllowed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Not Acceptable */
        NotAcceptable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Not Found */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Precondition Failed */
        PreconditionFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Request Entity Too Large */
        RequestEntityTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Request Timeout */
        RequestTimeout: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Requested Range Not Satisfiable */
        RequestedRangeNotSatisfiable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Service Unavailable */
        ServiceUnavailable: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Too Many Requests */
        TooManyRequests: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Unauthorized */
        Unauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Unprocessable Entity */
        UnprocessableEntity: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Unsupported Media Type */
        UnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Upgrade Required */
        UpgradeRequired: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    docs: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listAgents: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListAgentState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getAgent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the agent. */
                agent: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentDocument"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    checkAgent: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the agent. */
                agent: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listAgentCredentials: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
                /** @description The mode of the session. */
                mode?: "strict" | "development" | "build" | "breakglass";
            };
            header?: never;
            path: {
                /** @description Name of the agent. */
                agent: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListCredentialDecision"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listCells: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
                /** @description Only cells in this state. Removed ones are listed for this state only, while they can be brought back. */
                state?: "idle" | "running" | "live" | "paused" | "removed";
                /** @description Only cells with this label, as KEY=VALUE (repeatable). */
                label?: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListCellInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    createCell: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateCell"];
            };
        };
        responses: {
            /** @description The cell, or with fork_of the forks. */
            201: {
                headers: {
                    /** @description Where the cell is. */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InitResult"] | components["schemas"]["ForkedCells"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    removeCell: {
        parameters: {
            query?: {
                /** @description Also a cell with work that is undecided or not applied. Stop a live cell, and give up unfinished work. */
                force?: boolean;
                /** @description Do not keep its states: it cannot be brought back, and the next gc frees them. */
                now?: boolean;
                /** @description The state that a directory elsewhere has: accepted work up to it is not lost. */
                applied?: string;
            };
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    updateCell: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UpdateBody"];
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CellInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    accept: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AcceptBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getAccepted: {
        parameters: {
            query?: {
                /** @description Also list the receipts of the work in the state, for a publication; needs run and decide. */
                receipts?: boolean;
                /** @description Roots of states; the answer says which of them the state contains. */
                root?: string[];
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptedState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    apply: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApplyBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    branch: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BranchBody"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BranchResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listCheckpoints: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListCheckpointInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    createCheckpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CheckpointBody"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    choose: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChooseBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RaceResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    diff: {
        parameters: {
            query?: {
                /** @description What this run changed. Without it, and without from and to: all undecided work, as accept takes it, else what the last run changed, or a live cell since its start. */
                run?: string;
                /** @description A state of the cell, or another cell. */
                from?: string;
                /** @description A state of the cell, or another cell. Without it, the present state. */
                to?: string;
                /** @description Only this path and what is below it. */
                path?: string[];
                /** @description What the source directory does not have yet. */
                since_apply?: boolean;
                /** @description Also the cell's home. */
                all?: boolean;
                /** @description A document, a unified diff, or changed lines of each file. */
                format?: "json" | "patch" | "stat";
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The changes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiffResult"];
                    "text/plain": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getDisk: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiskResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    eval: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EvalBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EvalResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    execSocket: {
        parameters: {
            query: {
                /** @description The command and its arguments: one parameter for each. */
                command: string[];
                /** @description Variables of the command, as NAME=VALUE. */
                env?: string[];
                /** @description Where the command starts. */
                workdir?: string;
                /** @description Time limit, such as 30s. */
                timeout?: string;
                /** @description End the command when the socket is closed, instead of leaving it. */
                attached?: boolean;
                /** @description Give the command a terminal. */
                tty?: boolean;
                /** @description Columns of the terminal. */
                cols?: number;
                /** @description Rows of the terminal. */
                rows?: number;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket with the subprotocol forkcell.exec.v1. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            426: components["responses"]["UpgradeRequired"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    exec: {
        parameters: {
            query?: never;
            header?: {
                /** @description text/event-stream streams the output and the result. */
                Accept?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExecBody"];
            };
        };
        responses: {
            /** @description The command has ended. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecAnswer"];
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "started" | "stdout" | "stderr" | "result" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    attach: {
        parameters: {
            query?: {
                /** @description Columns of the terminal; without it, they stay. */
                cols?: number;
                /** @description Rows of the terminal; without it, they stay. */
                rows?: number;
                /** @description Of the clients that share the keyboard the first one types, and one that takes it becomes the first; without it, the client always types. */
                keyboard?: "share" | "take";
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Id of the command. */
                exec: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket with the subprotocol forkcell.exec.v1. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            426: components["responses"]["UpgradeRequired"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    export: {
        parameters: {
            query?: {
                /** @description The state; without it, the present one. */
                checkpoint?: string;
                /** @description Only what differs from the last applied state. */
                changes?: boolean;
                /** @description With changes: only what differs from this state. */
                since?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The archive. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    readFile: {
        parameters: {
            query: {
                /** @description Relative to the workspace, which is "." itself, or absolute in the cell. Bytes that are not UTF-8 are percent-encoded. */
                path: string;
            };
            header?: {
                /** @description application/x-tar answers with a directory, or a file, as an archive; application/vnd.forkcell.copy as the stream that cp uses. */
                Accept?: string;
                /** @description Parts of the file. */
                Range?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                    "application/vnd.forkcell.copy": string;
                    "application/x-tar": string;
                };
            };
            /** @description Parts of the file. */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                    "multipart/byteranges": string;
                };
            };
            /** @description The file has not changed. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["RequestEntityTooLarge"];
            416: components["responses"]["RequestedRangeNotSatisfiable"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    writeFile: {
        parameters: {
            query: {
                /** @description Relative to the workspace, which is "." itself, or absolute in the cell. Bytes that are not UTF-8 are percent-encoded. */
                path: string;
                /** @description Permission bits, in octal. Without it they stay; those of a new file are 0644. */
                mode?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    removeFile: {
        parameters: {
            query: {
                /** @description Relative to the workspace, which is "." itself, or absolute in the cell. Bytes that are not UTF-8 are percent-encoded. */
                path: string;
                /** @description Remove a directory with everything in it. */
                recursive?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    copyFiles: {
        parameters: {
            query: {
                /** @description Relative to the workspace, which is "." itself, or absolute in the cell. Bytes that are not UTF-8 are percent-encoded. */
                path: string;
                /** @description Name of the copy if path is a directory. */
                name: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/vnd.forkcell.copy": string;
            };
        };
        responses: {
            /** @description It was copied. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Copied"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listFiles: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ListFilesBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileList"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    makeDir: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    moveFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveFileBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    statFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FileBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    watchFiles: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WatchBody"];
            };
        };
        responses: {
            /** @description The changes, as they come. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "started" | "created" | "modified" | "removed" | "renamed" | "overflow" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    forkCell: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForkBody"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForkedCells"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    forwardPort: {
        parameters: {
            query: {
                /** @description Port on the loopback of the cell. */
                port: number;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket with the subprotocol forkcell.exec.v1, as of a command that copies its input to the port and its output from there. The exit code is 1 if nothing listens there. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            426: components["responses"]["UpgradeRequired"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getLog: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListLogEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["PauseBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    planRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPlan"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getPolicy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    setPolicy: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ValidateBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyApplied"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    putPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    postPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deletePort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    optionsPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    headPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    patchPort: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Port on the loopback of the cell. */
                port: number;
                /** @description Path for the listener: any number of parts, also none. The query belongs to it too. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            405: components["responses"]["MethodNotAllowed"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            504: components["responses"]["GatewayTimeout"];
            507: components["responses"]["InsufficientStorage"];
            /** @description What the listener answers. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listProcesses: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListProcessInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    reportPublication: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PublicationBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Empty"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    refresh: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RefreshBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RefreshResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    reject: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RejectBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MoveResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RestoreBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MoveResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    resume: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ResumeBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PauseResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    runSocket: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket with the subprotocol forkcell.exec.v1. The first message of the caller is the run, as for POST .../runs, with tty, cols, rows and term; the last one of the daemon has the type result or problem. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            426: components["responses"]["UpgradeRequired"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listCellRuns: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListRunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    run: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
                /** @description respond-async answers when the run has begun. */
                Prefer?: string;
                /** @description text/event-stream streams the output and the result. */
                Accept?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunBody"];
            };
        };
        responses: {
            /** @description The run has ended. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunAnswer"];
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "started" | "stdout" | "stderr" | "event" | "result" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            /** @description The run has begun. */
            202: {
                headers: {
                    /** @description Where the run is. */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunStarted"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getCellRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    cancelCellRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listCellRunEvents: {
        parameters: {
            query?: {
                /** @description Only this class: its number or its name, such as 2004 or detection_finding. */
                class?: string;
                /** @description Only what was allowed or denied. */
                action?: "allowed" | "denied";
                /** @description Only since this time (RFC 3339), or since so long ago, such as 2h. */
                since?: string;
                /** @description Server-sent events as they happen. */
                follow?: boolean;
            };
            header?: {
                /** @description With follow: begin after this event. Without it the stream begins now. */
                "Last-Event-ID"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/jsonl": string;
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "event" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getCellRunLogs: {
        parameters: {
            query?: {
                /** @description Which stream. */
                stream?: "stdout" | "stderr";
                /** @description Go on until the run has ended. */
                follow?: boolean;
            };
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    start: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["StartBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StartResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["StopBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    undeleteCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CellInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UndoBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApplyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    verifyCell: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the cell. */
                cell: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["VerifyBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerifyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listDecisions: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
                /** @description Only those of this cell. */
                cell?: string;
                /** @description Only those about this run. */
                run?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListDecisionInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getHomeDisk: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiskResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    doctor: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DoctorCheck"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /** @description Only this class: its number or its name, such as 2004 or detection_finding. */
                class?: string;
                /** @description Only what was allowed or denied. */
                action?: "allowed" | "denied";
                /** @description Only since this time (RFC 3339), or since so long ago, such as 2h. */
                since?: string;
                /** @description Server-sent events as they happen. */
                follow?: boolean;
                /** @description Only events of this cell. */
                cell?: string;
                /** @description Only events of this run. */
                run?: string;
            };
            header?: {
                /** @description With follow: begin after this event. Without it the stream begins now. */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/jsonl": string;
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "event" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    collectGarbage: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["GCBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GCResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    graph: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListGraphNode"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getKey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listPresets: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListPreset"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    explainPolicy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExplainBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Explanation"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    suggestPolicy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SuggestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicySuggestion"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    validatePolicy: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ValidateBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    race: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
                /** @description text/event-stream streams what happens, and the result. */
                Accept?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RaceBody"];
            };
        };
        responses: {
            /** @description The race has ended. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RaceResult"];
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "attempt" | "judged" | "result" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listReceipts: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
                /** @description Only those of this cell. */
                cell?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListReceiptInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    verifyReceipts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReceiptVerifyRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiptVerifyResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getReceipt: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the receipt. */
                receipt: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getBundle: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the receipt. */
                receipt: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listRuns: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListRunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    cancelRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    listRunEvents: {
        parameters: {
            query?: {
                /** @description Only this class: its number or its name, such as 2004 or detection_finding. */
                class?: string;
                /** @description Only what was allowed or denied. */
                action?: "allowed" | "denied";
                /** @description Only since this time (RFC 3339), or since so long ago, such as 2h. */
                since?: string;
                /** @description Server-sent events as they happen. */
                follow?: boolean;
            };
            header?: {
                /** @description With follow: begin after this event. Without it the stream begins now. */
                "Last-Event-ID"?: string;
            };
            path: {
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/jsonl": string;
                    "text/event-stream": {
                        /** @description A document, in JSON. */
                        data?: string;
                        /**
                         * @description What happened.
                         * @enum {string}
                         */
                        event?: "event" | "problem";
                        /** @description Where the stream can be continued. */
                        id?: string;
                    };
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    getRunLogs: {
        parameters: {
            query?: {
                /** @description Which stream. */
                stream?: "stdout" | "stderr";
                /** @description Go on until the run has ended. */
                follow?: boolean;
            };
            header?: never;
            path: {
                /** @description Id of the run. */
                run: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listSessions: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
                /** @description Only sessions of this agent. */
                agent?: string;
                /** @description Only sessions with this status. */
                status?: "starting" | "running" | "paused" | "stopping" | "exited" | "failed" | "aborted" | "interrupted";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListAgentSession"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    createSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSession"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentSession"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    planSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSession"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPlan"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentSession"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    removeSession: {
        parameters: {
            query?: {
                /** @description Also if its work was not decided or not applied. */
                force?: boolean;
            };
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    acceptSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AcceptBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AcceptResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    agentSocket: {
        parameters: {
            query?: {
                /** @description Give the command a terminal. */
                tty?: boolean;
                /** @description Columns of the terminal. */
                cols?: number;
                /** @description Rows of the terminal. */
                rows?: number;
                /** @description Type of the terminal, as in TERM. */
                term?: string;
            };
            header?: never;
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A WebSocket with the subprotocol forkcell.exec.v1. Closing it leaves the agent running. */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            426: components["responses"]["UpgradeRequired"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    publishSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PublishBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PublishResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            502: components["responses"]["BadGateway"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    rewindSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RewindBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RewoundSession"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    sendMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SendBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SentMessage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    stopSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the cell must have. */
                "If-Match"?: string;
            };
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["StopSessionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentSession"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    getTimeline: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListTimelineEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listTurns: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description Name of the session, which is that of its cell. */
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListTurnInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    listTokens: {
        parameters: {
            query?: {
                /** @description At most so many items. */
                limit?: number;
                /** @description The cursor of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ListTokenInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    createToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenBody"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenCreated"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    revokeToken: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Name or id of the token. */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    upload: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": string;
                "application/x-tar": string;
                "application/zstd": string;
            };
        };
        responses: {
            /** @description The upload. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upload"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            408: components["responses"]["RequestTimeout"];
            409: components["responses"]["Conflict"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["RequestEntityTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
            507: components["responses"]["InsufficientStorage"];
        };
    };
    usage: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageResult"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
    version: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VersionInfo"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            406: components["responses"]["NotAcceptable"];
            409: components["responses"]["Conflict"];
            422: components["responses"]["UnprocessableEntity"];
            429: components["responses"]["TooManyRequests"];
            500: components["responses"]["InternalServerError"];
            503: components["responses"]["ServiceUnavailable"];
        };
    };
}
