"""The client for asyncio and trio. The package _sync is generated from this one."""
