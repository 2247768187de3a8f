package highlight

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"
)

// grammar describes a language by what its words look like.
type grammar struct {
	names    string // of files, and their endings
	keywords string
	types    string // types, constants and functions of the language itself
	fold     bool   // keywords may be written in capitals
	forms    []form
}

// form is how a kind of word looks. begin is how all of its words begin, by which it is
// known again. A form with a state goes on until the end that the state knows.
type form struct {
	begin   string
	least   int // bytes of the shortest word
	pattern string
	kind    chroma.TokenType
	state   string
	inside  []chroma.Rule
}

const root = "root"

// lexer makes chroma's machine. All forms are one expression, which is tried once for each
// word. Every form consumes what it begins with, and none can fail after a long text: so
// it takes time in proportion to the text.
func (g grammar) lexer() *chroma.RegexLexer {
	rules := chroma.Rules{root: {g.rule()}}
	for _, f := range g.forms {
		if f.state != "" {
			rules[f.state] = f.inside
		}
	}
	return chroma.MustNewLexer(&chroma.Config{Name: strings.Fields(g.names)[0], DotAll: true}, func() chroma.Rules { return rules })
}

func (g grammar) words() map[string]chroma.TokenType {
	words := map[string]chroma.TokenType{}
	for w := range strings.FieldsSeq(g.keywords) {
		words[w] = chroma.Keyword
	}
	for w := range strings.FieldsSeq(g.types) {
		words[w] = chroma.KeywordType
	}
	return words
}

// rule makes one rule of all forms. Groups would say which of them a word has, but they
// cost several times the search itself.
func (g grammar) rule() chroma.Rule {
	words := g.words()
	patterns := []string{`[\s(){}\[\],;:.=+*&|!?%^~]+`, `[\p{L}_@][\p{L}\p{N}_$]*`}
	for _, f := range g.forms {
		patterns = append(patterns, f.pattern)
	}
	patterns = append(patterns, `0[xXbBoO][0-9a-fA-F_]+\w*`, `[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\w*`, `.`)
	return chroma.Rule{
		Pattern: strings.Join(patterns, "|"),
		Type: chroma.EmitterFunc(func(groups []string, _ *chroma.LexerState) chroma.Iterator {
			return chroma.Literator(chroma.Token{Type: g.kindOf(groups[0], words), Value: groups[0]})
		}),
		Mutator: chroma.MutatorFunc(func(s *chroma.LexerState) error {
			if f := g.formOf(s.Groups[0]); f.state != "" {
				return chroma.Push(f.state).Mutate(s)
			}
			return nil
		}),
	}
}

// formOf returns the form of a word; the zero value for a name, a number or a sign.
func (g grammar) formOf(word string) form {
	for _, f := range g.forms {
		if strings.HasPrefix(word, f.begin) && len(word) >= f.least {
			return f
		}
	}
	return form{kind: chroma.Text}
}

func (g grammar) kindOf(word string, words map[string]chroma.TokenType) chroma.TokenType {
	first, _ := utf8.DecodeRuneInString(word)
	switch {
	case unicode.IsSpace(first):
		return chroma.Text
	case first >= '0' && first <= '9':
		return chroma.LiteralNumber
	case first == '_' || first == '@' || unicode.IsLetter(first):
		if g.fold {
			word = strings.ToLower(word)
		}
		return words[word]
	}
	return g.formOf(word).kind
}

func simple(begin, pattern string, kind chroma.TokenType) form {
	return form{begin: begin, pattern: pattern, kind: kind}
}

// between is what begins and ends with marks, over several lines. first is the first
// character of the end.
func between(state, begin, end, first string, kind chroma.TokenType) form {
	return form{begin: begin, least: len(begin), pattern: regexp.QuoteMeta(begin), kind: kind, state: state, inside: []chroma.Rule{
		{Pattern: `[^\\` + first + `]+`, Type: kind},
		{Pattern: regexp.QuoteMeta(end), Type: kind, Mutator: chroma.Pop(1)},
		{Pattern: `\\?.`, Type: kind},
	}}
}

func slashes() form { return simple("//", `//[^\n]*`, chroma.CommentSingle) }
func hashes() form  { return simple("#", `#[^\n]*`, chroma.CommentSingle) }
func block() form   { return between("block", `/*`, `*/`, `*`, chroma.CommentMultiline) }

// quoted is a string on one line, which may end without its mark.
func quoted(mark string) form {
	return simple(mark, mark+`(?:[^\\\n`+mark+`]|\\.)*`+mark+`?`, chroma.LiteralString)
}

// character is a letter in single quotes. A quote alone is something else.
func character() form {
	return form{begin: "'", least: 3, pattern: `'(?:[^'\\\n]|\\[^\n']{1,9}|\\')'`, kind: chroma.LiteralStringChar}
}

func backticks() form { return between("raw", "`", "`", "`", chroma.LiteralStringBacktick) }

func grammars() []grammar {
	constants := "true false null nil None True False undefined NaN"
	return []grammar{
		{
			names: ".go", forms: []form{slashes(), block(), quoted(`"`), character(), backticks()},
			keywords: "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var",
			types:    "any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 uint32 uint64 uintptr iota append cap clear close copy delete len make max min new panic print println recover " + constants,
		},
		{
			names: ".py .pyi", keywords: "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield",
			types: "self cls int str bytes float bool list dict set tuple object type len range print isinstance super property " + constants,
			forms: []form{hashes(), between("long", `"""`, `"""`, `"`, chroma.LiteralString), between("longer", `'''`, `'''`, `'`, chroma.LiteralString), quoted(`"`), quoted(`'`)},
		},
		{
			names:    ".js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte",
			keywords: "abstract as async await break case catch class const continue declare default delete do else enum export extends finally for from function get if implements import in instanceof interface keyof let namespace new of private protected public readonly return satisfies set static super switch this throw try type typeof var void while with yield",
			types:    "any bigint boolean never number object string symbol unknown Array Map Set Promise Record " + constants,
			forms:    []form{slashes(), block(), quoted(`"`), quoted(`'`), backticks()},
		},
		{
			names:    ".c .h .cc .cpp .cxx .hh .hpp .java .kt .kts .cs .swift .rs .scala .dart .zig .proto .m .php .groovy .gradle",
			keywords: "abstract as async await break case catch class companion const constexpr continue crate data default defer delete do dyn else enum explicit export extends extern final finally fn for foreach friend fun func function goto guard if impl implements import in inline instanceof interface internal is let loop match message mod module move mut namespace native new object operator optional override package private protected protocol pub public ref repeated required reserved return sealed self service static struct super switch synchronized template this throw throws trait try type typedef typename union unsafe use using val var virtual volatile when where while yield",
			types:    "auto bool boolean byte char double f32 f64 float i8 i16 i32 i64 i128 int int32 int64 isize long short signed size_t str string String u8 u16 u32 u64 u128 uint32 uint64 unsigned usize void Vec Option Result Some Ok Err " + constants,
			forms:    []form{slashes(), block(), simple("#", `#[ \t]*(?:include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma|error)\b`, chroma.Keyword), quoted(`"`), character()},
		},
		{
			names:    ".sh .bash .zsh .ksh .bashrc .profile dockerfile containerfile makefile gnumakefile .mk .env .dockerfile",
			keywords: "if then else elif fi for in do done while until case esac function return break continue exit export local readonly set unset shift trap source eval exec FROM RUN CMD COPY ADD ENV ARG ENTRYPOINT WORKDIR EXPOSE VOLUME USER LABEL ifeq ifneq ifdef ifndef endif include define endef",
			types:    "echo printf cd test read true false",
			forms:    []form{simple("$", `\$[\w@#?*!$-]|\$\{#?`, chroma.Text), hashes(), between("double", `"`, `"`, `"`, chroma.LiteralString), simple("'", `'[^']*'?`, chroma.LiteralString)},
		},
		{
			names: ".rb .rake gemfile rakefile .ex .exs .pl .pm .r .jl .lua", forms: []form{simple("--", `--[^\n]*`, chroma.CommentSingle), hashes(), quoted(`"`), quoted(`'`)},
			keywords: "alias and begin break case class def defmodule do else elsif end ensure fn for function if in local loop module my next not or our package redo repeat require rescue retry return self sub super then undef unless until use when while yield",
			types:    constants + " puts print",
		},
		{names: ".yaml .yml .toml .ini .cfg .conf .properties .editorconfig .gitconfig .tf .hcl", types: constants + " yes no on off", forms: []form{hashes(), quoted(`"`), quoted(`'`)}},
		{names: ".json .jsonc .json5 .ipynb .webmanifest", types: constants, forms: []form{slashes(), quoted(`"`)}},
		{
			names: ".css .scss .less", keywords: "@import @media @font-face @keyframes @supports @layer @include @mixin @use @extend", types: "inherit initial unset none auto important",
			forms: []form{block(), simple("#", `#[0-9a-fA-F]{3,8}\b`, chroma.LiteralNumber), quoted(`"`), quoted(`'`)},
		},
		{
			names: ".sql .psql .ddl", fold: true, forms: []form{simple("--", `--[^\n]*`, chroma.CommentSingle), block(), simple("'", `'[^']*'?`, chroma.LiteralString), quoted(`"`)},
			keywords: "add all alter and as asc between begin by case check column commit constraint create cross database default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction trigger union unique update using values view when where with",
			types:    "bigint blob boolean char date decimal double float int integer json jsonb numeric real serial smallint text time timestamp uuid varchar count sum min max avg true false",
		},
		{names: ".html .htm .xhtml .xml .svg .xsd .plist .csproj .pom", forms: markup()},
	}
}

// markup are the names of elements, values of attributes and comments.
func markup() []form {
	return []form{
		between("comment", `<!--`, `-->`, `-`, chroma.Comment),
		{begin: "<", least: 2, pattern: `</?[\w:.-]+`, kind: chroma.Keyword, state: "element", inside: []chroma.Rule{
			{Pattern: `/?>`, Type: chroma.Keyword, Mutator: chroma.Pop(1)},
			{Pattern: `"[^"]*"?|'[^']*'?`, Type: chroma.LiteralString},
			{Pattern: `[^>"'/]+`, Type: chroma.Text},
			{Pattern: `.`, Type: chroma.Text},
		}},
		simple("", `[^<]+`, chroma.Text),
	}
}
