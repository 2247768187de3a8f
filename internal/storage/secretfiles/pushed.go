package secretfiles

import "sync"

// pushedGroups lists the files that make a forge, or a service that watches it, run
// something or change its rules as soon as they are pushed, before a person reviews
// them. Apply writes them: on the host they run nothing. Names are compared as in
// controlGroups. The list is in docs/reference/control-files.md; a test keeps the two
// equal.
func pushedGroups() []controlGroup {
	return []controlGroup{
		{what: "CI workflow or action", patterns: []string{
			"**/.github/workflows", "**/.github/actions", "action.yml", "action.yaml",
			".gitlab-ci.*", "*.gitlab-ci.yml", "*.gitlab-ci.yaml", "**/.gitlab/ci", "**/.gitlab/agents", "**/.gitlab/duo",
			".gitea", ".forgejo", ".circleci", "circle.yml", "jenkinsfile*", "*.jenkinsfile", ".drone.*", ".woodpecker*",
			".buildkite", "azure-pipelines*", ".azure-pipelines*", ".azuredevops", ".vsts-ci.yml", ".vsts-ci.yaml",
			"bitbucket-pipelines.*", ".travis.yml", ".travis.yaml", "appveyor.yml", ".appveyor.yml", ".cirrus.*", ".builds", ".build.yml", ".build.yaml",
			".semaphore", ".teamcity", ".tekton", ".lagoon.yml", "wercker.yml", ".codefresh", "codefresh.yml", "codemagic.yaml", "bitrise.yml",
			"buildspec*.yml", "buildspec*.yaml", "cloudbuild*.yml", "cloudbuild*.yaml", "cloudbuild*.json", ".onedev-buildspec.yml", "prow.yaml", ".prow.yaml", ".prow",
			".zuul.yaml", ".zuul.d", "zuul.yaml", "zuul.d", ".ci-operator.yaml",
		}},
		{what: "deployment on each push", patterns: []string{
			"netlify.toml", "vercel.json", "amplify.yml", "render.yaml", "wrangler.toml", "wrangler.json", "wrangler.jsonc", ".readthedocs.yml", ".readthedocs.yaml",
			".platform.app.yaml", "**/.platform", "apphosting.yaml",
		}},
		{what: "rule of reviews or merges", patterns: []string{
			"codeowners", "**/.github/settings.yml", "**/.github/settings.yaml", "**/.github/rulesets", ".mergify*", "mergify.yml", ".kodiak.toml", "bors.toml", ".policy.yml",
			"**/.github/auto-merge.yml", "**/.gitlab/merge_request_approval*",
		}},
		{what: "update bot", patterns: []string{
			"**/.github/dependabot.*", "dependabot.yml", "dependabot.yaml", ".dependabot", "renovate.json*", ".renovaterc*", ".pyup.yml", ".scala-steward.conf", "depfu.yml",
		}},
	}
}

// PushedFiles returns the list that RunsWhenPushed uses, group by group.
func PushedFiles() map[string][]string { return byGroup(pushedGroups()) }

var pushedList = sync.OnceValue(func() controls { return newControls(pushedGroups()) })

// RunsWhenPushed reports whether path, or a directory above it, takes effect where a
// branch with it is pushed to, and what it is.
func RunsWhenPushed(path string, isDir bool) (what string, yes bool) {
	c := pushedList()
	what, _, yes = c.find(path, isDir)
	return what, yes
}
